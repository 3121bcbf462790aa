package bench

import (
	"fmt"
	"time"
)

// Result is what a benchmark found. Its JSON names are what users' scripts read.
type Result struct {
	Setting
	Runs               int64    `json:"runs"`
	Lost               int64    `json:"lost"`
	Duplicates         int64    `json:"duplicates"`
	RunsPerSecond      float64  `json:"runs_per_second"`
	Lateness           Lateness `json:"lateness_ms"`
	DrainSeconds       float64  `json:"drain_seconds"`
	CPU                CPU      `json:"cpu"`
	WALBytesPerRun     float64  `json:"wal_bytes_per_run"`
	TransactionsPerRun float64  `json:"transactions_per_run"`
	BareRunsPerSecond  *float64 `json:"bare_runs_per_second,omitempty"` // engine only
	RatioToBare        *float64 `json:"ratio_to_bare,omitempty"`        // engine only

	// For the curves of the report.
	starts []start
	origin time.Time // where their time begins, by the machine's clock
}

// Setting is what was measured, and where.
type Setting struct {
	Bench             string   `json:"bench"`
	Jobs              int      `json:"jobs"`
	Target            string   `json:"target"`
	Nodes             int      `json:"nodes"`
	Rate              *float64 `json:"rate"`             // null: not steady
	DurationSeconds   *float64 `json:"duration_seconds"` // null: not steady
	PostgresVersion   string   `json:"postgres_version"`
	Fsync             string   `json:"fsync"`
	SynchronousCommit string   `json:"synchronous_commit"`
	Cores             int      `json:"cores"`
}

// Lateness of starts, in milliseconds.
type Lateness struct {
	First float64 `json:"first"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// CPU is cores used on average. Null: not known, as PostgreSQL is on another
// machine, or not there, as the sink of noop.
type CPU struct {
	Postgres *float64 `json:"postgres"`
	Node     *float64 `json:"node"`
	Sink     *float64 `json:"sink"`
}

// Err says that runs were lost: that is a failure, however good the numbers are.
func (r *Result) Err() error {
	if r.Lost == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d runs were lost: no success in the ledger, or nothing reached the receiver", r.Lost, r.Runs+r.Lost)
}

// tally is how many occurrences happened, and how often more than once.
type tally struct{ runs, duplicates int64 }

// add counts an occurrence: successes that the ledger has, and deliveries. One
// that is said to have succeeded without any is not counted.
func (t *tally) add(succeeded, deliveries int) {
	if succeeded > 0 && deliveries > 0 {
		t.runs++
	}
	t.duplicates += int64(max(0, max(succeeded, deliveries)-1))
}
