package timeline

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Bucket counts the occurrences and runs of some time.
type Bucket struct {
	From, To  time.Time
	Succeeded int64
	Failed    int64
	Cancelled int64
	Skipped   int64 // for any reason but an outage
	Missed    int64 // skipped because no node served the job when it was due
	Live      int64 // due, retrying, running, accepted
	Planned   int64
	Paused    int64
	Archived  int64
	Unknown   int64 // also forgotten
}

// maxBuckets is how many buckets a window has.
const maxBuckets = 200

// The lengths of buckets. They begin at full hours, or at midnight, in the zone.
var bucketSteps = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// Buckets counts the items in buckets of equal length, so many that the window from, to has at most maxBuckets. Only the
// covered part of the window has buckets, and the first and the last may be shorter.
func (t *Timeline) Buckets(from, to time.Time, zone *time.Location) []Bucket {
	next := stepFor(to.Sub(from), zone)
	var out []Bucket
	for at := t.From; at.Before(t.To); {
		end := earliest(next(at), t.To)
		out = append(out, Bucket{From: at.UTC(), To: end.UTC()})
		at = end
	}
	i := 0
	for k := range t.Items {
		item := &t.Items[k]
		for i < len(out) && !item.DueAt.Before(out[i].To) {
			i++
		}
		if i < len(out) {
			out[i].count(item)
		}
	}
	return out
}

// stepFor returns the function that finds the end of the bucket that begins at a time.
func stepFor(length time.Duration, zone *time.Location) func(time.Time) time.Time {
	for _, step := range bucketSteps {
		if length <= maxBuckets*step {
			return func(at time.Time) time.Time {
				_, seconds := at.In(zone).Zone()
				offset := time.Duration(seconds) * time.Second
				return at.Add(offset).Truncate(step).Add(step - offset)
			}
		}
	}
	days := 1
	for length > maxBuckets*time.Duration(days)*24*time.Hour {
		days++
	}
	return func(at time.Time) time.Time {
		y, m, d := at.In(zone).Date()
		return time.Date(y, m, d+days, 0, 0, 0, 0, zone)
	}
}

func (b *Bucket) count(i *Item) {
	n := max(i.Count, 1)
	switch i.State {
	case State(job.StatusSucceeded):
		b.Succeeded += n
	case State(job.StatusFailed):
		b.Failed += n
	case State(job.StatusCancelled):
		b.Cancelled += n
	case Skipped:
		if i.Reason.Missed() {
			b.Missed += n
		} else {
			b.Skipped += n
		}
	case Planned, State(job.StatusPending):
		b.Planned += n
	case Paused:
		b.Paused += n
	case Archived:
		b.Archived += n
	case Forgotten, Unknown:
		b.Unknown += n
	default:
		b.Live += n
	}
}
