package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// WakeAhead is how soon a new run must be due for a wake-up. The sweep finds later ones in time.
	WakeAhead = time.Second
	// maxWakeQueues bounds the text of a wake-up, for PostgreSQL carries less than 8000 bytes. Workers of further queues
	// find their runs with the next scan, and late runs with the next scan from the beginning of their feed.
	maxWakeQueues = 200
)

// Wake names where runs were written that are due immediately, so that they start without waiting for a sweep or a scan.
// It is a hint: if it is lost, the sweep finds the runs.
type Wake struct {
	From       string  `json:"from,omitempty"`       // the process that sends it
	Partitions []int16 `json:"partitions,omitempty"` // of runs that nodes deliver
	// Queues contains the queues of runs that workers pull, each with the due time of its first late run, in seconds since
	// 1970. A run is late if it was due before it was written; 0: none is.
	Queues map[int32]int64 `json:"queues,omitempty"`
}

// Add adds a run, by its partition, or by its queue if workers pull it.
func (w *Wake) Add(partition int16, queue int32, pulled bool) {
	switch {
	case !pulled && !slices.Contains(w.Partitions, partition):
		w.Partitions = append(w.Partitions, partition)
	case pulled:
		w.addQueue(queue, 0)
	}
}

// AddLate adds a late run that workers pull. They may already have got later ones.
func (w *Wake) AddLate(queue int32, due time.Time) { w.addQueue(queue, due.Unix()) }

func (w *Wake) addQueue(queue int32, since int64) {
	known, ok := w.Queues[queue]
	switch {
	case !ok && len(w.Queues) == maxWakeQueues:
	case !ok || known == 0 || since != 0 && since < known:
		if w.Queues == nil {
			w.Queues = map[int32]int64{}
		}
		w.Queues[queue] = since
	}
}

// Merge adds what another wake-up names.
func (w *Wake) Merge(o Wake) {
	for _, p := range o.Partitions {
		w.Add(p, 0, false)
	}
	for queue, since := range o.Queues {
		w.addQueue(queue, since)
	}
}

// Empty returns whether it names nothing.
func (w *Wake) Empty() bool { return len(w.Partitions) == 0 && len(w.Queues) == 0 }

// ParseWake reads the text of a wake-up. A partition that does not exist is an error.
func ParseWake(text string) (w Wake, err error) {
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return Wake{}, fmt.Errorf("read a wake-up: %w", err)
	}
	if slices.ContainsFunc(w.Partitions, func(p int16) bool { return p < 0 || p >= Partitions }) {
		return Wake{}, fmt.Errorf("read a wake-up: it names a partition that is not from 0 to %d", Partitions-1)
	}
	return w, nil
}

// Text returns the wake-up as text for ParseWake.
func (w *Wake) Text() string {
	text, _ := json.Marshal(w) // numbers always have a form
	return string(text)
}
