package jobs

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/timeline"
)

// StatsWindow is a range of due times of the past.
type StatsWindow struct {
	From time.Time `query:"from" doc:"Due at this time or later. Default 14 days before to."`
	To   time.Time `query:"to" doc:"Due before this time, at most 400 days after from. Default now."`
}

type statsInput struct {
	JobPath
	StatsWindow
}

// JobStats counts what a job did in a window of due times.
type JobStats struct {
	From        time.Time `json:"from" doc:"Start of what is counted, inclusive. If partial, later than was asked for."`
	To          time.Time `json:"to" doc:"End of what is counted, exclusive."`
	Runs        int64     `json:"runs" doc:"Runs that ended: succeeded, failed or cancelled."`
	Succeeded   int64     `json:"succeeded"`
	Failed      int64     `json:"failed"`
	Cancelled   int64     `json:"cancelled"`
	Skipped     int64     `json:"skipped" doc:"Occurrences that were skipped, for any reason but an outage."`
	Missed      int64     `json:"missed" doc:"Skipped because no node served the job when they were due."`
	Live        int64     `json:"live" doc:"Runs that are due, retrying, running or accepted."`
	Unknown     int64     `json:"unknown" doc:"Occurrences that nothing explains, or that are forgotten."`
	SuccessRate *float64  `json:"success_rate" doc:"Share of succeeded in succeeded and failed. null: there are none."`

	Duration Quantiles `json:"duration_ms" doc:"Of the last attempts of runs that succeeded or failed."`
	Lateness Quantiles `json:"lateness_ms" doc:"Of the first attempts of runs: how late they began."`

	Streak      *Streak    `json:"streak,omitempty" doc:"The newest runs that ended alike."`
	LastSuccess *time.Time `json:"last_success_at,omitempty" doc:"End of the last success in the window."`
	LastFailure *time.Time `json:"last_failure_at,omitempty" doc:"End of the last failure in the window."`
	Partial     bool       `json:"partial" doc:"Not all of the window could be read. The counts are exact between from and to."`
}

// Quantiles are in milliseconds. They are absent if nothing was measured.
type Quantiles struct {
	P50 *int64 `json:"p50,omitempty" doc:"Milliseconds that half of them do not exceed."`
	P95 *int64 `json:"p95,omitempty" doc:"Milliseconds that 95 of 100 do not exceed."`
}

// Streak is how many of the newest runs succeeded, or failed, in a row.
type Streak struct {
	State string `json:"state" enum:"succeeded,failed"`
	Count int64  `json:"count"`
}

type statsOutput struct {
	Body JobStats
}

func (h *Handlers) getStats(ctx context.Context, in *statsInput) (*statsOutput, error) {
	f, err := h.facts(ctx, in.Job, &Window{in.From, in.To}, 0)
	if err != nil {
		return nil, err
	}
	line := timeline.Build(f)
	s := line.Stats(f.Spread())
	out := &statsOutput{Body: JobStats{
		From: line.From, To: line.To, Runs: s.Runs(), Succeeded: s.Succeeded, Failed: s.Failed, Cancelled: s.Cancelled,
		Skipped: s.Skipped, Missed: s.Missed, Live: s.Live, Unknown: s.Unknown,
		Duration: quantiles(s.Durations), Lateness: quantiles(s.Lateness),
		LastSuccess: rest.OptionalTime(s.LastSuccess), LastFailure: rest.OptionalTime(s.LastFailure),
		Partial: line.Partial,
	}}
	if rate, ok := s.SuccessRate(); ok {
		out.Body.SuccessRate = &rate
	}
	if s.Streak > 0 {
		out.Body.Streak = &Streak{string(s.StreakState), s.Streak}
	}
	return out, nil
}

func quantiles(sorted []time.Duration) Quantiles {
	of := func(p int) *int64 {
		d, ok := timeline.Percentile(sorted, p)
		if !ok {
			return nil
		}
		ms := d.Milliseconds()
		return &ms
	}
	return Quantiles{of(50), of(95)}
}
