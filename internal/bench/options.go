package bench

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// The targets that runs can go to.
const (
	Noop = "noop"
	HTTP = "http"
)

// maxSchedules bounds what is held in memory for them.
const maxSchedules = 100_000

// Options of a benchmark.
type Options struct {
	DatabaseURL string
	Jobs        int
	Target      string
	Nodes       int
	Slots       int   // attempts at once, of each node
	Connections int32 // to the database, of each node
	Keep        bool  // the scratch database
	Profile     string

	Rate      int           // steady: runs due in a second
	Duration  time.Duration // steady: how long is measured
	Schedules int           // steady: distinct ones; 0: one for each second
	Rounds    int           // engine: of bare SQL and engine each

	Log io.Writer // progress and what to know besides
}

// check refuses what cannot be measured.
func (o *Options) check() error {
	switch {
	case o.Jobs < 1:
		return fmt.Errorf("--jobs %d: use 1 or more", o.Jobs)
	case o.Nodes < 1:
		return fmt.Errorf("--nodes %d: use 1 or more", o.Nodes)
	case o.Target != Noop && o.Target != HTTP:
		return fmt.Errorf("--target %s: use noop or http", o.Target)
	case o.Slots < 1:
		return fmt.Errorf("--slots %d: use 1 or more", o.Slots)
	default:
		return nil
	}
}

func (o *Options) checkSteady() error {
	switch {
	case o.Rate < 1 || o.Rate > o.Jobs:
		return fmt.Errorf("--rate %d: use 1 to --jobs, which is %d: no job is due more than once a second", o.Rate, o.Jobs)
	case o.Duration < time.Second:
		return errors.New("--duration: use 1s or more")
	case o.Schedules < 0 || o.Schedules > min(o.Jobs, maxSchedules):
		return fmt.Errorf("--schedules %d: use 1 to %d, or leave it out: one for each second", o.Schedules, min(o.Jobs, maxSchedules))
	default:
		return nil
	}
}
