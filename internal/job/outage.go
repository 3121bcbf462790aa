package job

import "time"

// Outage is the outcome for occurrences that were missed, because no node served their partition when they came due.
type Outage struct {
	Runs     int64     // that start late
	Skipped  int64     // runs, and due times of whole schedules, that do not run
	From, To time.Time // the due times of the first and the last
}

// Empty returns whether nothing was missed.
func (o *Outage) Empty() bool { return o.Runs == 0 && o.Skipped == 0 }

// Add adds another part of the same outage.
func (o *Outage) Add(part Outage) {
	if part.Empty() {
		return
	}
	if o.Empty() {
		*o = part
		return
	}
	o.Runs, o.Skipped = o.Runs+part.Runs, o.Skipped+part.Skipped
	if part.From.Before(o.From) {
		o.From = part.From
	}
	o.To = later(o.To, part.To)
}
