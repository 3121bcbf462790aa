package engine_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
)

// measured are the policies that TestMeasurePolicies compares with the first.
var measured = []struct {
	name   string
	policy job.Policy
}{
	{"allow", job.Policy{Overlap: job.OverlapAllow}},
	{"deadline", job.Policy{Overlap: job.OverlapAllow, Deadline: job.Duration(10 * time.Minute)}},
	{"skip", job.Policy{Overlap: job.OverlapSkip}},
	{"queue", job.Policy{Overlap: job.OverlapQueue}},
	{"queue_all", job.Policy{Overlap: job.OverlapQueueAll}},
	{"replace", job.Policy{Overlap: job.OverlapReplace}},
	{"all", job.Policy{Overlap: job.OverlapQueueAll, Deadline: job.Duration(10 * time.Minute)}},
}

// TestMeasurePolicies: runs that a policy lets through start nearly as fast as plain ones. BELFRY_POLICIES jobs have a
// run each that is due at the same instant, with one policy after the other, ROUNDS times.
func TestMeasurePolicies(t *testing.T) {
	t.Parallel()
	jobs, _ := strconv.Atoi(os.Getenv("BELFRY_POLICIES"))
	rounds, _ := strconv.Atoi(os.Getenv("ROUNDS"))
	if jobs == 0 {
		t.Skip("make measure-policies")
	}
	b := setup(t)
	for i := 0; i < jobs; i += 1000 {
		o := job.BulkParams{Namespace: namespace, Actor: "test"}
		for k := i; k < min(i+1000, jobs); k++ {
			o.Jobs = append(o.Jobs, job.NewJob{Definition: job.Definition{
				Name: fmt.Sprint("job-", k), Schedule: nextHour, Target: job.Target{Kind: "record"},
			}})
		}
		_, err := b.store.CreateJobs(t.Context(), o)
		require.NoError(t, err)
	}
	rates, ratios := map[string][]float64{}, map[string][]float64{} // the latter to plain runs of the same round
	for i := range max(rounds, 1) {
		for _, m := range measured {
			rate := b.rateOf(t, m.policy, jobs)
			rates[m.name] = append(rates[m.name], rate)
			ratios[m.name] = append(ratios[m.name], rate/rates["allow"][i])
		}
	}
	for _, m := range measured {
		t.Logf("%-10s %8.0f runs/s  ratio %.2f  %.0f", m.name, median(rates[m.name]), median(ratios[m.name]), rates[m.name])
	}
	for _, m := range measured {
		require.GreaterOrEqual(t, median(ratios[m.name]), 0.8, m.name)
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// rateOf runs each job once with a policy, and returns how many runs ended a second by the times of the database.
func (b *bundle) rateOf(t *testing.T, p job.Policy, jobs int) (rate float64) {
	t.Helper()
	p = p.WithDefaults()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	exec := func(sql string, args ...any) {
		_, err := b.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`UPDATE job SET policy = $1, admit = $2, deadline = nullif($3::interval, interval '0')`, string(text),
		int16(p.AdmitRule()), time.Duration(p.Deadline))
	exec(`TRUNCATE run_history`)
	exec(`VACUUM job`)
	b.late(t, 1)
	exec(`VACUUM ANALYZE run`)
	o := b.engine.Options
	b.target = &recorder{}
	o.Slots, o.Targets, o.Log = 1000, map[string]engine.Target{"record": b.target}, slog.New(slog.DiscardHandler)
	b.engine = engine.New(o)
	stop := b.start(t)
	require.Eventually(t, func() bool { return b.target.count() == jobs }, 5*time.Minute, 50*time.Millisecond)
	b.eventually(t, "all end", `SELECT count(*) FROM run`, 0)
	stop()
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT count(*) / extract(epoch FROM max(ended_at) - min(started_at)) FROM run_history WHERE ended = 1`).Scan(&rate))
	return rate
}
