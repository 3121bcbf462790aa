package job

import (
	"time"

	"github.com/google/uuid"
)

// DeadBy is what a summary groups dead letters by.
type DeadBy string

// What dead letters are grouped by.
const (
	DeadByCause  DeadBy = "cause"
	DeadByJob    DeadBy = "job"
	DeadByReason DeadBy = "reason"
	DeadByQueue  DeadBy = "queue"
)

// The bounds of a summary of dead letters.
const (
	MaxDeadGroups  = 200
	MaxDeadSummary = 50_000  // dead letters that a summary counts
	MaxDeadCount   = 100_000 // dead letters that a dry run counts
	DeadSparkline  = 24      // counts in a sparkline
	MaxDeadSince   = 50      // groups that have a DeadSince
	MaxSinceJobs   = 5       // jobs that a DeadSince covers
	MaxDeadSample  = 5       // dead letters that a dry run shows
	DeadSinceRange = 7 * 24 * time.Hour
)

// DeadQueryBy asks for a summary of the dead letters that a filter selects.
type DeadQueryBy struct {
	Namespace uuid.UUID
	By        DeadBy
	DeadFilter
}

// DeadGroup is dead letters that have something in common. Its last failure says what a typical one looks like.
type DeadGroup struct {
	Last     DeadLetter
	Count    int64
	More     bool // there are more than Count
	OldestAt time.Time
	// Sparkline is the number of failures over time, in parts of equal length from OldestAt to the last failure. If
	// there are more, it has the newest ones.
	Sparkline []int64
	Since     *DeadSince // nil: not counted, see [MaxDeadSince]
}

// DeadSince is how runs ended after the last failure of a group: those of the jobs that failed last in it.
type DeadSince struct {
	From              time.Time // the last failure of the group, or the start of [DeadSinceRange]
	Succeeded, Failed int64
	Jobs              int  // whose runs are counted, at most [MaxSinceJobs]
	More              bool // these jobs may have more such runs
}

// DeadSummary is all groups, the largest first.
type DeadSummary struct {
	Groups []DeadGroup
	Total  int64
	More   bool // there are more than Total
	// Partial says that groups may be missing.
	Partial bool
}
