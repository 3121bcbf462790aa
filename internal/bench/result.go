package bench

import (
	"fmt"
	"time"
)

// Result is the result of a benchmark. Users' scripts depend on its JSON names.
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

	// These are for the curves of the report.
	starts []start
	origin time.Time // where the time axis begins, by the machine's clock
}

// Setting is what was measured, and where.
type Setting struct {
	Bench             string   `json:"bench"`
	Jobs              int      `json:"jobs"`
	Target            string   `json:"target"`
	Nodes             int      `json:"nodes"`
	Rate              *float64 `json:"rate"`             // null unless steady
	DurationSeconds   *float64 `json:"duration_seconds"` // null unless steady
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

// CPU is the average number of cores in use. Null means unknown (PostgreSQL is on another machine) or absent (noop has
// no sink).
type CPU struct {
	Postgres *float64 `json:"postgres"`
	Node     *float64 `json:"node"`
	Sink     *float64 `json:"sink"`
}

// Err returns an error if runs were lost: that is a failure, however good the numbers are.
func (r *Result) Err() error {
	if r.Lost == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d runs were lost: no success in the ledger, or nothing reached the receiver", r.Lost,
		r.Runs+r.Lost)
}

// tally counts the occurrences that happened, and the duplicates.
type tally struct{ runs, duplicates int64 }

// add counts an occurrence by its successes in the ledger and its deliveries. A success without a delivery does not
// count.
func (t *tally) add(succeeded, deliveries int) {
	if succeeded > 0 && deliveries > 0 {
		t.runs++
	}
	t.duplicates += int64(max(0, max(succeeded, deliveries)-1))
}
