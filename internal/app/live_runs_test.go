package app

import (
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestANodeCountsLiveRuns: plan needs the counts to know which namespaces are full.
func TestANodeCountsLiveRuns(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.create(t, "soon", func(d *job.Definition) { d.Schedule = schedule.Spec{Every: "1s"} })
	b.eventually(t, 1, `SELECT count(*) FROM namespace_runs WHERE runs > 0 AND NOT is_full`)
}
