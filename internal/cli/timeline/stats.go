package timeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
)

// Stats is what a job did in the last 14 days, in one line. It is empty if the server does not say: the line is a
// convenience.
func Stats(ctx context.Context, r *remote.Server, job string) string {
	raw, err := r.Get(ctx, remote.JobPath(job)+"/stats", nil)
	if err != nil {
		return ""
	}
	v, err := terminal.Decode[stats](raw)
	if err != nil {
		return ""
	}
	return v.String()
}

type stats struct {
	From        time.Time `json:"from"`
	Succeeded   int64     `json:"succeeded"`
	Failed      int64     `json:"failed"`
	Cancelled   int64     `json:"cancelled"`
	Skipped     int64     `json:"skipped"`
	Missed      int64     `json:"missed"`
	SuccessRate *float64  `json:"success_rate"`
	Duration    quantiles `json:"duration_ms"`
	Lateness    quantiles `json:"lateness_ms"`
	Streak      *struct {
		State string `json:"state"`
		Count int64  `json:"count"`
	} `json:"streak"`
	Partial bool `json:"partial"`
}

type quantiles struct {
	P50 *int64 `json:"p50"`
	P95 *int64 `json:"p95"`
}

func (s *stats) String() string {
	var parts []string
	for _, c := range []struct {
		n    int64
		name string
	}{
		{s.Succeeded, "succeeded"},
		{s.Failed, "failed"},
		{s.Cancelled, "cancelled"},
		{s.Skipped, "skipped"},
		{s.Missed, "missed"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	if s.SuccessRate != nil {
		parts = append(parts, fmt.Sprintf("success rate %.1f %%", 100**s.SuccessRate))
	}
	if s.Streak != nil {
		parts = append(parts, fmt.Sprintf("the last %d %s", s.Streak.Count, s.Streak.State))
	}
	if s.Duration.P50 != nil {
		parts = append(parts, "took "+milliseconds(s.Duration.P50)+" (p95 "+milliseconds(s.Duration.P95)+")")
	}
	if s.Lateness.P50 != nil {
		parts = append(parts, "late by "+milliseconds(s.Lateness.P50)+" (p95 "+milliseconds(s.Lateness.P95)+")")
	}
	if s.Partial {
		parts = append(parts, "counted from "+s.From.UTC().Format(time.RFC3339)+" on")
	}
	return strings.Join(parts, ", ")
}
