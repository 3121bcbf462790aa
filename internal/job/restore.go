package job

import (
	"errors"
	"time"
)

// Restore is a restore of the database to an earlier time, as nodes noticed it. What happened from From to Until is
// forgotten, and runs that are due before Until do not start until an operator accepts the restore.
type Restore struct {
	From, Until time.Time // Until is zero: the database was never restored
	Held        bool      // it is not accepted yet
	Occurrences []HeldOccurrences
	More        bool // there are more of them
}

// ErrNotHeld says that there is nothing to accept.
var ErrNotHeld = errors.New("no restore of the database is waiting to be accepted; belfry restore status shows the last one")

// HeldOccurrences are occurrences of a job in the forgotten time.
type HeldOccurrences struct {
	Namespace string    `json:"namespace"`
	Job       string    `json:"job"`
	From      time.Time `json:"from"` // due times of the first and the last
	To        time.Time `json:"to"`
	Count     int64     `json:"count"`
	// Planned: they are pending runs, because the restored ledger knows them. CatchUp will decide about them.
	Planned bool  `json:"planned"`
	Runs    int64 `json:"runs"` // how many the missed policy would run, of those that are not planned
}

// AcceptResult is what was done.
type AcceptResult struct {
	Runs    int64 // were created, or start now
	Skipped int64 // pending runs
}
