package job

import (
	"math"
	"time"
)

const (
	// DefaultDrain is how soon the runs of a queue should be done, unless the caller says otherwise.
	DefaultDrain = 30 * time.Second
	// DefaultTook is assumed of attempts if none of the queue has ended within a day.
	DefaultTook = time.Second
)

// QueueLoad is what the slots of a queue have to do.
type QueueLoad struct {
	QueueCounts
	Attempts int64         // that ended lately
	Took     time.Duration // of those attempts together
}

// MeanTook is how long an attempt takes on average.
func (l *QueueLoad) MeanTook() time.Duration {
	if l.Attempts == 0 {
		return DefaultTook
	}
	return l.Took / time.Duration(l.Attempts)
}

// DesiredSlots returns how many slots a queue needs, so that its runs that are live or due within a minute are done
// within drain. An attempt that takes longer than that needs a slot of its own. It is never less than what is running:
// fewer slots would interrupt attempts. It is the mean that counts, not the median, because a few long attempts may be
// most of the work.
func DesiredSlots(q *Queue, l *QueueLoad, drain time.Duration) int64 {
	if q.Paused {
		return l.Running
	}
	runs := l.Running + l.Due + l.Planned
	share := min(1, l.MeanTook().Seconds()/drain.Seconds())
	slots := max(l.Running, int64(math.Ceil(float64(runs)*share)), min(runs, 1))
	if most := int64(q.Limits.MaxRunning); most > 0 {
		slots = max(l.Running, min(slots, most))
	}
	return slots
}
