package job

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
)

// LateAfter is how long a run may be due and not started before it counts as late.
const LateAfter = 3 * time.Second

// StatsPause is how often a node writes what it has counted.
const StatsPause = 5 * time.Second

// KeepStats is how long the statistics of minutes are kept.
const KeepStats = 14 * 24 * time.Hour

// Stat is what happened in some time. It is statistics, not the ledger: a node that is killed loses the last seconds.
type Stat struct {
	Started, Succeeded, Failed, Cancelled int64
	Skipped                               int64 // without those that are Missed
	Missed                                int64
	Late                                  int64 // runs that were late when the time ended
	Lateness                              Histogram

	Attempts int64         // that have ended
	Took     time.Duration // of those attempts together
}

// Ended counts runs by how they ended.
func (s *Stat) Ended(how Ended, why Reason, n int64) {
	switch {
	case how == EndedSucceeded:
		s.Succeeded += n
	case how == EndedFailed:
		s.Failed += n
	case how == EndedCancelled:
		s.Cancelled += n
	case why.Missed():
		s.Missed += n
	default:
		s.Skipped += n
	}
}

// Add adds what happened in another time. Late is that of the later one, so it is added up only for the same time.
func (s *Stat) Add(o *Stat) {
	s.Started, s.Succeeded, s.Failed = s.Started+o.Started, s.Succeeded+o.Succeeded, s.Failed+o.Failed
	s.Cancelled, s.Skipped, s.Missed = s.Cancelled+o.Cancelled, s.Skipped+o.Skipped, s.Missed+o.Missed
	s.Late += o.Late
	s.Attempts, s.Took = s.Attempts+o.Attempts, s.Took+o.Took
	s.Lateness.Add(o.Lateness)
}

// Total is how much there is in it, to find the busiest queues.
func (s *Stat) Total() int64 {
	return s.Started + s.Succeeded + s.Failed + s.Cancelled + s.Skipped + s.Missed + s.Late
}

// latenessBounds are the upper ends of the parts of a Histogram. The last part has no end. They are stored: a change
// needs a new column.
var latenessBounds = [...]time.Duration{
	ms(1), ms(2), ms(3), ms(5), ms(8), ms(13), ms(20), ms(30), ms(50), ms(80), ms(130), ms(200), ms(300), ms(500),
	ms(800), ms(1300), ms(2000), ms(3000), ms(5000), ms(8000), ms(13_000), ms(20_000), ms(30_000), ms(60_000),
	ms(120_000), ms(300_000), ms(600_000), ms(1_800_000), ms(3_600_000),
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// HistogramParts is the number of parts of a Histogram.
const HistogramParts = len(latenessBounds) + 1

// Histogram counts starts by their lateness. Those of several nodes and minutes can be added. nil has none.
type Histogram []int64

// Count counts one start.
func (h *Histogram) Count(late time.Duration) {
	if *h == nil {
		*h = make(Histogram, HistogramParts)
	}
	i, _ := slices.BinarySearch(latenessBounds[:], late)
	(*h)[i]++
}

// Add adds the counts of another one.
func (h *Histogram) Add(o Histogram) {
	if len(o) == 0 {
		return
	}
	if *h == nil {
		*h = make(Histogram, HistogramParts)
	}
	for i := range min(len(o), HistogramParts) {
		(*h)[i] += o[i]
	}
}

// Quantile estimates the lateness that a fraction of the starts did not exceed. It lies in the part that has it; in
// the last one it is its lower end. false: there were no starts.
func (h Histogram) Quantile(fraction float64) (time.Duration, bool) {
	total := int64(0)
	for _, n := range h {
		total += n
	}
	if total == 0 {
		return 0, false
	}
	rank := max(int64(math.Ceil(fraction*float64(total))), 1)
	var from time.Duration
	for i, n := range h {
		if i == len(latenessBounds) {
			break
		}
		if rank <= n {
			return from + time.Duration(float64(latenessBounds[i]-from)*float64(rank)/float64(n)), true
		}
		rank -= n
		from = latenessBounds[i]
	}
	return from, true
}

// StatKey says what a process counted.
type StatKey struct {
	Namespace uuid.UUID // zero, with Queue 0: of the process itself
	Queue     int32     // 0: all queues of the namespace. [StatRest]: those without a row of their own
	Minute    time.Time
}

// StatRow is what one process counted in a minute.
type StatRow struct {
	StatKey
	Audited int64 // occurrences that the audit judged, of the process itself
	Stat
}

// MaxStatQueues is how many queues have statistics of their own, of one process and minute. The others are only part of
// those of their namespace, and of [StatRest].
const MaxStatQueues = 200

// StatRest takes the place of a queue in rows of what a process counted in queues without a row of their own. It shows
// that a queue without a row was not necessarily idle.
const StatRest int32 = -1

// StatParams asks for statistics of a namespace.
type StatParams struct {
	Namespace uuid.UUID
	Queue     string // empty: all queues together
	ByQueue   bool   // a series for each queue
	From, To  time.Time
	Step      time.Duration
}

// The bounds of one request for statistics.
const (
	MaxStatRows   = 20_000 // rows of series
	MaxStatPoints = 20_000 // of all series
	MaxStatSeries = 50     // queues
	// MaxStatCandidates is how many queues of a namespace are compared to find the busiest.
	MaxStatCandidates = 1_000
	// MaxStatProcessRows is how many rows say when processes were counting: 14 days of 5 nodes.
	MaxStatProcessRows = 100_000
)

// StatPoint is what happened in a step of a series.
type StatPoint struct {
	At time.Time
	Stat
	Counted bool // otherwise nothing is known: no node was counting, or none this queue

	Incomplete bool // a node was killed in it and had not written all that it counted, or did not count this queue
}

// StatSeries is the points of a queue, or of a namespace if Queue is empty.
type StatSeries struct {
	Queue  string
	Points []StatPoint
}

// Stats is series from From on, in the order of the names of their queues.
type Stats struct {
	From, To time.Time
	Step     time.Duration
	Series   []StatSeries
	Partial  bool // queues are left out, or there were too many rows: the oldest points are not complete
}
