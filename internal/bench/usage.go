package bench

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// reading is the state of all meters at one time.
type reading struct {
	at                   time.Duration
	counters             postgres.Counters
	postgres, node, sink float64 // seconds of CPU
	known                bool    // postgres is
}

func (b *bench) read(ctx context.Context) (r reading, err error) {
	r.at = clock.Elapsed()
	if b.postmaster != 0 {
		r.postgres, r.known = cpuOfServer(b.postmaster)
	}
	for _, n := range b.nodes {
		s, _ := cpuOf(n.cmd.Process.Pid) // one that died has failed the benchmark
		r.node += s
	}
	if b.sink != nil {
		r.sink, _ = cpuOf(b.sink.child.cmd.Process.Pid)
	}
	r.counters, err = b.scratch.Counters(ctx)
	return r, err
}

// usage is what was used between readings, summed.
type usage struct {
	wall, postgres, node, sink float64 // seconds
	unknown                    bool    // postgres is
	wal, transactions          int64
}

// addCPU adds what was used between two readings.
func (u *usage) addCPU(from, to reading) {
	u.wall += (to.at - from.at).Seconds()
	u.postgres += to.postgres - from.postgres
	u.node += to.node - from.node
	u.sink += to.sink - from.sink
	u.unknown = u.unknown || !from.known || !to.known
}

func (u *usage) addCounters(from, to postgres.Counters) {
	u.wal += to.WAL - from.WAL
	u.transactions += to.Transactions - from.Transactions
}

// fill writes usage into a result that has its runs.
func (u *usage) fill(r *Result) {
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
