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

// maxSchedules bounds the memory for schedules.
const maxSchedules = 100_000

// Options of a benchmark.
type Options struct {
	Node    config.Config // of each node; the scratch database is created on its server
	Jobs    int
	Target  string
	Nodes   int
	Keep    bool   // keep the scratch database
	Profile string // file for a CPU profile of the node; empty for none

	Rate      int           // steady: runs due in a second
	Duration  time.Duration // steady: how long to measure
	Schedules int           // steady: number of distinct schedules; 0 means one for each second
	Rounds    int           // engine: of bare SQL and engine each

	Log io.Writer // for progress and warnings
}

// check rejects options that cannot be measured.
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
		return fmt.Errorf("--rate %d: use 1 to --jobs, which is %d: no job is due more than once a second",
			o.Rate, o.Jobs)
	case o.Duration < time.Second:
		return errors.New("--duration: use 1s or more")
	case o.Schedules < 0 || o.Schedules > min(o.Jobs, maxSchedules):
		return fmt.Errorf("--schedules %d: use 1 to %d, or leave it out: one for each second",
			o.Schedules, min(o.Jobs, maxSchedules))
	default:
		return nil
	}
}
