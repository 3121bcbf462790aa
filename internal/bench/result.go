package bench

import "fmt"

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

	starts []start // by time, for the report
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

// tally compares what had to happen with what did.
type tally struct{ runs, lost, duplicates int64 }

// add counts an occurrence: successes that the ledger has, attempts made, and
// what reached the sink. One that succeeded without reaching the sink is lost.
func (t *tally) add(succeeded, attempts int, received *int) {
	if succeeded == 0 || received != nil && *received == 0 {
		t.lost++
	} else {
		t.runs++
	}
	// A second delivery is what the sink saw; without one, what was begun again.
	deliveries := attempts
	if received != nil {
		deliveries = *received
	}
	t.duplicates += int64(max(0, deliveries-1))
}
