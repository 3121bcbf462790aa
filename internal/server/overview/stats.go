package overview

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// StatPoint is what happened in a step of a series.
type StatPoint struct {
	At         time.Time `json:"at" doc:"When the step began."`
	Counted    bool      `json:"counted"`
	Started    int64     `json:"started" doc:"Attempts that started."`
	Succeeded  int64     `json:"succeeded"`
	Failed     int64     `json:"failed"`
	Cancelled  int64     `json:"cancelled"`
	Skipped    int64     `json:"skipped" doc:"Without those that were missed."`
	Missed     int64     `json:"missed"`
	Late       int64     `json:"late"`
	Incomplete bool      `json:"incomplete"`
	P50        *float64  `json:"p50_ms,omitempty" doc:"Estimated median lateness of starts. Absent: none started."`
	P99        *float64  `json:"p99_ms,omitempty" doc:"Estimated 99th percentile of the lateness of starts."`
}

// Descriptions implements rest.Described.
func (StatPoint) Descriptions() map[string]string {
	return map[string]string{
		"counted": "Whether it was counted. If not, nothing is known about the step: no node was counting, there was too " +
			"much to read, or a node had too many busy queues to count each of them.",
		"incomplete": "There may be more: a node was killed in the step, which loses what it counted in its last seconds, " +
			"or a node did not count this queue.",
		"missed": "Occurrences that were missed while no node served them. " +
			"A due time that no job of a schedule runs for counts once in each partition.",
		"late": "Runs that had been due for more than 3 seconds and had not started, at the end of the step; " +
			"of an hour, in its worst minute.",
	}
}

func wirePoint(p job.StatPoint) StatPoint {
	return StatPoint{
		At: p.At, Counted: p.Counted, Incomplete: p.Incomplete, Started: p.Started, Succeeded: p.Succeeded, Failed: p.Failed,
		Cancelled: p.Cancelled, Skipped: p.Skipped, Missed: p.Missed, Late: p.Late,
		P50: quantile(p.Lateness, 0.5), P99: quantile(p.Lateness, 0.99),
	}
}

// quantile returns a quantile in milliseconds, nil if there were no starts.
func quantile(h job.Histogram, fraction float64) *float64 {
	late, ok := h.Quantile(fraction)
	if !ok {
		return nil
	}
	ms := float64(late.Microseconds()) / 1000
	return &ms
}

// StatSeries is the points of one queue, or of the namespace.
type StatSeries struct {
	Key    string      `json:"key" doc:"Name of the queue. Empty: all queues together."`
	Points []StatPoint `json:"points"`
}

// Stats is what happened in each step of a range of time.
type Stats struct {
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Step    string       `json:"step" enum:"1m,1h"`
	Series  []StatSeries `json:"series"`
	Partial bool         `json:"partial"`
}

// Descriptions implements rest.Described.
func (Stats) Descriptions() map[string]string {
	return map[string]string{
		"partial": "There was too much to count or to read: queues are left out, or points are not counted or incomplete.",
	}
}

type getStatsInput struct {
	From  time.Time `query:"from" doc:"Default: an hour before to, or a day if the step is an hour."`
	To    time.Time `query:"to" doc:"Default: now."`
	Step  string    `query:"step" enum:"1m,1h" default:"1m"`
	Queue string    `query:"queue" maxLength:"63" doc:"Name of a queue. Default: all queues together."`
	By    string    `query:"by" enum:"state,queue" default:"state" doc:"queue: a series for each of the busiest queues, at most 50."`
}

type getStatsOutput struct {
	Body Stats
}

// The longest ranges of statistics.
const (
	maxMinutes = 24 * time.Hour
	maxHours   = job.KeepStats
)

// params returns what is asked for at an instant, aligned with the steps.
func (in *getStatsInput) params(now time.Time) (job.StatParams, error) {
	p := job.StatParams{Queue: in.Queue, ByQueue: in.By == "queue", From: in.From, To: in.To, Step: time.Minute}
	width, most := time.Hour, maxMinutes
	if in.Step == "1h" {
		p.Step, width, most = time.Hour, 24*time.Hour, maxHours
	}
	if p.To.IsZero() || p.To.After(now) {
		p.To = now
	}
	p.To = p.To.UTC().Truncate(p.Step).Add(p.Step)
	if p.From.IsZero() {
		p.From = p.To.Add(-width)
	}
	p.From = p.From.UTC().Truncate(p.Step)
	switch {
	case !p.From.Before(p.To):
		return p, problem.New("from", "it is not before the end of the range", "use an earlier time, or a later to")
	case p.To.Sub(p.From) > most+p.Step:
		return p, problem.New("from", "the range is too long",
			"use at most a day with step=1m, or 14 days with step=1h")
	}
	return p, nil
}

func (h *Handlers) getStats(ctx context.Context, in *getStatsInput) (*getStatsOutput, error) {
	namespace := rest.Principal(ctx).Namespace
	now, err := h.Views.Now(ctx, namespace)
	if err != nil {
		return nil, err
	}
	p, err := in.params(now)
	if err != nil {
		return nil, err
	}
	p.Namespace = namespace
	s, err := h.Views.Stats(ctx, p)
	if err != nil {
		return nil, err
	}
	return &getStatsOutput{Stats{
		From: s.From, To: s.To, Step: in.Step, Partial: s.Partial,
		Series: rest.Map(s.Series, func(one job.StatSeries) StatSeries {
			return StatSeries{Key: one.Queue, Points: rest.Map(one.Points, wirePoint)}
		}),
	}}, nil
}
