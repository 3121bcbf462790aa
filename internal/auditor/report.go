package auditor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Kind is what is wrong with an occurrence.
type Kind string

// The kinds.
const (
	Missing   Kind = "missing"   // the schedule demands it, and the ledger has no entry
	Phantom   Kind = "phantom"   // the ledger has an entry, and the schedule does not demand it
	Early     Kind = "early"     // it ran before its due time
	Duplicate Kind = "duplicate" // the ledger has it more than once
)

// Finding is an occurrence that is not as it must be.
type Finding struct {
	Kind      Kind
	Namespace uuid.UUID
	Job       uuid.UUID
	Name      string // of the job; empty if the job is deleted
	DueAt     time.Time
	New       bool // no audit had found it before
}

// Params says what to audit.
type Params struct {
	Window Window      // zero bounds: the last 24 hours; until now
	Jobs   []uuid.UUID // nil: all
	Oracle bool        // compute due times by the oracle as far as it knows the schedules
}

// Report counts the occurrences that were judged, by what happened to them. Each expected one is in exactly one of Run,
// Live, Skipped, Backfilled, Paused, NotPlanned and Missing.
type Report struct {
	Jobs     int64
	Expected int64

	Run        int64 // ended: succeeded, failed or cancelled
	Live       int64
	Skipped    map[job.Reason]int64
	Backfilled int64 // they were missing, and a user has run them since
	Paused     int64 // they wait until their job is resumed
	NotPlanned int64 // their cursor has not reached them

	Missing, Phantom, Early, Duplicates int64

	WithoutOracle int64 // expected ones that only the product's own code could compute
	Unreadable    int64 // jobs with a definition that this version cannot read; they are not judged
	ByDigest      int64 // expected ones that a pass over their day accounts for: no entry of them was read again

	// Findings are the first of what is missing, phantom, early or double, up to MaxFindings of a call.
	Findings []Finding
}

// MaxFindings bounds Report.Findings. All are counted.
const MaxFindings = 10_000

// Wrong is how many promises are broken; an occurrence may break two. Duplicates in the ledger are counted apart: no
// run is lost by them.
func (r *Report) Wrong() int64 { return r.Missing + r.Phantom + r.Early }

// Found is how many findings there are, also those that are not in Findings.
func (r *Report) Found() int64 { return r.Wrong() + r.Duplicates }

// Add adds the figures of another report.
func (r *Report) Add(o Report) {
	r.Jobs += o.Jobs
	r.Expected += o.Expected
	r.Run += o.Run
	r.Live += o.Live
	for reason, n := range o.Skipped {
		r.skip(reason, n)
	}
	r.Backfilled += o.Backfilled
	r.Paused += o.Paused
	r.NotPlanned += o.NotPlanned
	r.Missing += o.Missing
	r.Phantom += o.Phantom
	r.Early += o.Early
	r.Duplicates += o.Duplicates
	r.WithoutOracle += o.WithoutOracle
	r.Unreadable += o.Unreadable
	r.ByDigest += o.ByDigest
	r.Findings = append(r.Findings, o.Findings[:min(len(o.Findings), MaxFindings-len(r.Findings))]...)
}

func (r *Report) skip(reason job.Reason, n int64) {
	if r.Skipped == nil {
		r.Skipped = map[job.Reason]int64{}
	}
	r.Skipped[reason] += n
}

func (r *Report) find(f Finding) {
	switch f.Kind {
	case Missing:
		r.Missing++
	case Phantom:
		r.Phantom++
	case Early:
		r.Early++
	default:
		r.Duplicates++
	}
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// String is the report in one line.
func (r *Report) String() string {
	var skipped strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&skipped, " skipped_%s=%d", reason, r.Skipped[reason])
	}
	return fmt.Sprintf("jobs=%d expected=%d run=%d live=%d%s backfilled=%d paused=%d not_planned=%d "+
		"missing=%d phantom=%d early=%d duplicates=%d without_oracle=%d unreadable=%d", r.Jobs, r.Expected, r.Run, r.Live,
		skipped.String(), r.Backfilled, r.Paused, r.NotPlanned, r.Missing, r.Phantom, r.Early, r.Duplicates,
		r.WithoutOracle, r.Unreadable)
}
