package bench

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfry-dev/belfry/internal/config"
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
	Node    config.Config // of each node; the database is where the scratch one is made
	Jobs    int
	Target  string
	Nodes   int
	Keep    bool   // the scratch database
	Profile string // of the node's CPU, to this file

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
