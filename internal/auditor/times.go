package auditor

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/oracle"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Window is a range of due times: after From, up to and including To.
type Window struct{ From, To time.Time }

// Times computes the due times of schedules. It is not safe for concurrent use.
type Times struct {
	oracle bool

	known  map[timesKey]times
	stored int // due times in known
	clocks map[clockKey]*oracle.Clock
}

// NewTimes returns a Times that asks the oracle or, without, the product's own code.
func NewTimes(withOracle bool) *Times { return &Times{oracle: withOracle} }

type timesKey struct {
	schedule, spread string
	from, to         int64
}

type times struct {
	due      []time.Time
	byOracle bool
}

type clockKey struct {
	zone     string
	from, to int64
}

// The bounds of what Times remembers, about 40 MB each.
const (
	maxStored = 1_000_000
	maxClocks = 200
)

// errNotForOracle says that the oracle does not know a kind of schedule.
var errNotForOracle = errors.New("auditor: the oracle does not know this schedule")

// Due lists the due times of a stored schedule in a window, in order: those that fire, not those that a gap or a calendar
// removes. byOracle is false if the product computed them.
func (t *Times) Due(text json.RawMessage, job uuid.UUID, w Window) (due []time.Time, byOracle bool, err error) {
	key := timesKey{schedule: string(text), from: w.From.UnixMicro(), to: w.To.UnixMicro()}
	if strings.Contains(key.schedule, "H") { // a hash of the job's id
		key.spread = job.String()
	}
	if found, ok := t.known[key]; ok {
		return found.due, found.byOracle, nil
	}
	var spec schedule.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, false, err
	}
	var found times
	if t.oracle {
		found.due, err = t.ask(&spec, w)
		found.byOracle = err == nil
	}
	if !found.byOracle {
		if found.due, err = compute(spec, job, w); err != nil {
			return nil, false, err
		}
	}
	if t.known == nil || t.stored+len(found.due) > maxStored {
		t.known, t.stored = map[timesKey]times{}, 0
	}
	t.known[key] = found
	t.stored += len(found.due) + 1
	return found.due, found.byOracle, nil
}

// compute asks the product.
func compute(spec schedule.Spec, job uuid.UUID, w Window) (due []time.Time, err error) {
	s, err := schedule.New(spec, job.String())
	if err != nil {
		return nil, err
	}
	for o := range s.All(w.From, w.To) {
		if o.Skip == "" {
			due = append(due, o.Due.UTC())
		}
	}
	return due, nil
}

// ask asks the oracle, which knows neither calendars nor start_at and end_at.
func (t *Times) ask(spec *schedule.Spec, w Window) (due []time.Time, err error) {
	if !spec.StartAt.IsZero() && w.From.Before(spec.StartAt) {
		w.From = spec.StartAt.Add(-time.Nanosecond)
	}
	if !spec.EndAt.IsZero() && !w.To.Before(spec.EndAt) {
		w.To = spec.EndAt.Add(-time.Nanosecond)
	}
	switch {
	case len(spec.Calendars) > 0:
		return nil, errNotForOracle
	case spec.Cron != "":
		return t.askCron(spec, w)
	case spec.Every != "":
		return askEvery(spec, w)
	case spec.At != "":
		at, err := time.Parse(time.RFC3339, spec.At)
		if err != nil { // on the clock of a zone
			return nil, errNotForOracle
		}
		return oracle.At(at.Truncate(time.Microsecond), w.From, w.To), nil
	default:
		return nil, errNotForOracle
	}
}

func (t *Times) askCron(spec *schedule.Spec, w Window) ([]time.Time, error) {
	cron, err := oracle.Parse(spec.Cron)
	if err != nil { // for example H
		return nil, errNotForOracle
	}
	zone, err := time.LoadLocation(spec.Timezone)
	if err != nil {
		return nil, err
	}
	dst := oracle.DST{Gap: oracle.Gap(spec.DST.Gap), Fold: oracle.Fold(spec.DST.Fold)}
	if dst.Gap == "" {
		dst.Gap = oracle.GapShift
	}
	if dst.Fold == "" {
		dst.Fold = oracle.FoldFirst
	}
	if !w.From.Before(w.To) {
		return nil, nil
	}
	key := clockKey{zone: spec.Timezone, from: w.From.Unix(), to: w.To.Unix()}
	clock := t.clocks[key]
	if clock == nil {
		clock = oracle.NewClock(zone, w.From, w.To)
		if t.clocks == nil || len(t.clocks) >= maxClocks {
			t.clocks = map[clockKey]*oracle.Clock{}
		}
		t.clocks[key] = clock
	}
	return cron.On(clock, dst, w.From, w.To), nil
}

// askEvery begins to count shortly before the window: the oracle counts one by one.
func askEvery(spec *schedule.Spec, w Window) ([]time.Time, error) {
	step, err := time.ParseDuration(spec.Every)
	if err != nil { // days and weeks
		if step, err = schedule.ParseDuration(spec.Every); err != nil {
			return nil, err
		}
	}
	anchor := time.Unix(0, 0)
	if spec.Anchor != "" {
		if anchor, err = time.Parse(time.RFC3339, spec.Anchor); err != nil {
			return nil, err
		}
	}
	passed := (w.From.Unix() - anchor.Unix()) / int64(step/time.Second)
	anchor = anchor.Add(time.Duration(passed-1) * step)
	return oracle.Every(anchor, step, w.From, w.To), nil
}
