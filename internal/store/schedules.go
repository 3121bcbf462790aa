package store

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// maxSchedules bounds the cache of compiled schedules: about 100 MB.
const maxSchedules = 100_000

// Schedules caches compiled schedules by their canonical text. When it is full
// it is emptied: compiling costs microseconds, so nothing cleverer pays.
type Schedules struct {
	mu   sync.Mutex
	byID map[string]*schedule.Schedule
}

// Get returns the schedule of a canonical text.
func (c *Schedules) Get(text string) (*schedule.Schedule, error) {
	c.mu.Lock()
	s, ok := c.byID[text]
	c.mu.Unlock()
	if ok {
		return s, nil
	}
	var spec schedule.Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("read a stored schedule: %w", err)
	}
	s, err := schedule.New(spec, "")
	if err != nil {
		return nil, fmt.Errorf("compile a stored schedule: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil || len(c.byID) >= maxSchedules {
		c.byID = map[string]*schedule.Schedule{}
	}
	c.byID[text] = s
	return s, nil
}

// Read reads the schedule and the missed policy of a cursor.
func (c *Schedules) Read(text, missed string) (s *schedule.Schedule, policy job.Missed, err error) {
	if s, err = c.Get(text); err != nil {
		return nil, policy, err
	}
	if err := json.Unmarshal([]byte(missed), &policy); err != nil {
		return nil, policy, fmt.Errorf("read the missed policy: %w", err)
	}
	return s, policy, nil
}
