package job

import (
	"errors"
	"fmt"
	"time"
)

// Restore is a restore of the database to an earlier time, as nodes noticed it. What happened from From to Until is
// forgotten, and runs that are due from HeldFrom to Until do not start until an operator accepts the restore.
type Restore struct {
	From, Until time.Time // Until is zero: the database was never restored
	HeldFrom    time.Time // Until: nothing is held; zero: all that is due before Until is
	Occurrences []HeldOccurrences
	More        bool // there are more of them
}

// Held reports whether runs are held.
func (r Restore) Held() bool { return r.HeldFrom.Before(r.Until) }

// Begin is where the part begins that is not accepted yet.
func (r Restore) Begin() time.Time { return later(r.From, r.HeldFrom) }

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

// AcceptParams decides about the part of the forgotten time up to To.
type AcceptParams struct {
	From, To time.Time
	Run      bool // by the missed policies; false: skip
}

// AcceptResult is what was done.
type AcceptResult struct {
	Runs    int64 // were created, or start now
	Skipped int64 // pending runs
}

// Check returns why a part cannot be accepted. A part begins where the last one ended, so that none is forgotten.
func (r Restore) Check(p AcceptParams) error {
	format := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	switch begin := r.Begin(); {
	case !r.Held():
		return errors.New("no restore of the database is waiting to be accepted; belfry restore status shows the last one")
	case p.From.After(begin):
		return fmt.Errorf("what is held begins at %s, and the part before --from would stay held: accept that part first",
			format(begin))
	case !p.To.After(begin) || p.To.After(r.Until):
		return fmt.Errorf("--to must be after %s and not after %s, when the restore was noticed", format(begin), format(r.Until))
	}
	return nil
}
