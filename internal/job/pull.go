package job

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Feed is the runs of one queue, handler and priority, ordered by run time. Mark is its low-water mark: as far as
// the caller knows, every run before it has been taken.
type Feed struct {
	Queue    int32
	Handler  string
	Priority int16
	Mark     time.Time
}

// Due is a pending run whose run time has come.
type Due struct {
	Key
	RunAt    time.Time
	Handler  string
	Priority int16
	Feed     int // its index in PullClaimParams.Feeds
	Admit    AdmitRule
	KeyLimit Limit // of its concurrency key; zero: it has none
	KeyMax   int32 // the maximum of that key
}

// Poll is a worker that waits for runs: up to Max, of these handlers.
type Poll struct {
	Session  uuid.UUID
	Handlers []string
	Max      int
}

// Assignment is a run and the poll that gets it, by its index.
type Assignment struct {
	Due
	Poll int
}

// Assign decides which poll gets which run. The runs are given in the order in which they should start.
//
// A run goes to a poll that knows its handler and has not reached its maximum; of several, to the one with the
// fewest runs, so that work spreads. A job whose runs depend on each other gets at most one assignment: its other runs are
// left for the next claim.
func Assign(due []Due, polls []Poll) (assigned []Assignment) {
	count := make([]int, len(polls))
	seen := map[uuid.UUID]bool{}
	for _, d := range due {
		if d.Admit.Exclusive() && seen[d.Job] {
			continue
		}
		best := Choose(polls, d.Handler, func(i int) int { return count[i] })
		if best < 0 {
			continue
		}
		count[best]++
		seen[d.Job] = true
		assigned = append(assigned, Assignment{d, best})
	}
	return assigned
}

// Choose returns the poll that gets a run of a handler, given how many runs each poll has; -1: none.
func Choose(polls []Poll, handler string, count func(int) int) int {
	best := -1
	for i, p := range polls {
		n := count(i)
		if n < p.Max && (best < 0 || n < count(best)) && slices.Contains(p.Handlers, handler) {
			best = i
		}
	}
	return best
}

// PullParams is a worker's request for runs.
type PullParams struct {
	Handlers []string
	Max      int
	Wait     time.Duration // the maximum, for the first run
	// Waits is called when the request begins to wait for runs; nil: it is not. The channel that it returns is closed
	// when the worker disconnects. From then on, the context of the request does not matter.
	Waits func() <-chan struct{}
	// Check is called before runs are handed out; nil: it is not. If it returns an error, the runs go back.
	Check func() error
}

// ScanParams are the parameters of a scan for due runs.
type ScanParams struct {
	Ahead time.Duration  // includes runs that are due so soon
	Limit int            // how many runs of a feed are read to find one that is not skipped
	Skip  func(Key) bool // runs to leave out; nil means none
}

// PullClaimParams are the parameters of a claim of runs of one queue.
type PullClaimParams struct {
	Namespace uuid.UUID // of the queue
	Queue     int32
	Feeds     []Feed
	Polls     []Poll
	Limit     int            // the maximum number of candidates of each feed
	Ahead     time.Duration  // reports the next run if it is due so soon
	Skip      func(Key) bool // runs to leave out; nil means none
	Waits     func(Due) bool // runs that join a line for their concurrency key without a try; nil means none
}

// PullClaimResult is the result of a claim.
type PullClaimResult struct {
	Now       time.Time
	Paused    bool // the queue is paused, so nothing was claimed
	Refused   []RefusedRun
	Claimed   []Claimed
	Waiting   []Due       // for another run of their job
	Undecided []Due       // have to be decided alone
	Skipped   int         // runs that their policy skipped
	Marks     []time.Time // the new mark of each feed
	Expired   []uuid.UUID // sessions that have expired, or will within a second
	Next      time.Time   // when the next run is due, if that is within Ahead
}

// RefusedRun is a run that found no capacity under a limit.
type RefusedRun struct {
	Due
	Refusal Refusal
}

// Claimed is an attempt for a worker.
type Claimed struct {
	Attempt
	Handler   string
	JobName   string
	ClaimedAt time.Time
}
