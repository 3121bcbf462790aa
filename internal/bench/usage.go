package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/bench/scratch"
	"github.com/belfry-dev/belfry/internal/clock"
)

// reading is the state of all counters at one time.
type reading struct {
	at                   time.Duration
	counters             scratch.Counters
	postgres, node, sink float64 // seconds of CPU
	known                bool    // postgres is known
}

func (b *bench) read(ctx context.Context) (r reading, err error) {
	r.at = clock.Elapsed()
	if b.postmaster != 0 {
		r.postgres, r.known = cpuOfServer(b.postmaster)
	}
	for _, n := range b.nodes {
		r.node += cpuOf(n.cmd.Process.Pid)
	}
	if b.sink != nil {
		r.sink = cpuOf(b.sink.child.cmd.Process.Pid)
	}
	r.counters, err = b.scratch.Counters(ctx)
	return r, err
}

// usage is the sum of what was used between readings.
type usage struct {
	wall, postgres, node, sink float64 // seconds
	unknown                    bool    // postgres is unknown
	wal, transactions, others  int64
}

// quiet is how many transactions of others per second are negligible: monitoring and autovacuum cause some.
const quiet = 10

// addCPU adds the CPU time between two readings.
func (u *usage) addCPU(from, to reading) {
	u.wall += (to.at - from.at).Seconds()
	u.postgres += to.postgres - from.postgres
	u.node += to.node - from.node
	u.sink += to.sink - from.sink
	u.unknown = u.unknown || !from.known || !to.known
}

func (u *usage) addCounters(from, to scratch.Counters) {
	u.wal += to.WAL - from.WAL
	u.transactions += to.Transactions - from.Transactions
	u.others += to.Others - from.Others
}

// report adds usage to a result. The result must have its number of runs.
func (b *bench) report(u usage, r *Result) {
	if float64(u.others) > quiet*u.wall {
		_, _ = fmt.Fprintf(b.Log, "other databases of this server committed %d transactions during the measurement: "+
			"WAL and CPU of PostgreSQL include theirs, and lateness suffers\n", u.others) // the log is not essential
	}
	cores := func(seconds float64) *float64 {
		c := seconds / u.wall
		return &c
	}
	r.CPU.Node = cores(u.node)
	if !u.unknown {
		r.CPU.Postgres = cores(u.postgres)
	}
	if r.Target == HTTP {
		r.CPU.Sink = cores(u.sink)
	}
	if r.Runs > 0 {
		r.WALBytesPerRun = float64(u.wal) / float64(r.Runs)
		r.TransactionsPerRun = float64(u.transactions) / float64(r.Runs)
	}
}
