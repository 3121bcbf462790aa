package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// loadJob is a job as the test knows it.
type loadJob struct {
	id     uuid.UUID
	d      job.Definition
	at     time.Time // when it was created
	paused bool
}

// randomSchedule returns a schedule of any kind.
func randomSchedule(r *rand.Rand, around time.Time) (spec schedule.Spec) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	spec.Timezone = pick("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
	switch r.IntN(6) {
	case 0:
		spec.Every, spec.Anchor = pick("45s", "7m", "1h", "90m"), around.Add(-9*time.Hour).Format(time.RFC3339)
		spec.Timezone = ""
	case 1:
		spec.At = around.Add(time.Duration(r.IntN(40*3600)) * time.Second).Format(time.RFC3339)
		spec.Timezone = ""
	case 2:
		spec.Cron = pick("* * * * *", "*/15 * * * *", "15,45 30 * * * *")
	default:
		spec.Cron = fmt.Sprintf("%d %s * * *", r.IntN(60), pick("1,2,3", "2", "0-4", "23", "*"))
		spec.DST.Gap = schedule.Gap(pick("", "shift", "skip"))
		spec.DST.Fold = schedule.Fold(pick("", "first", "second", "both"))
	}
	if r.IntN(4) == 0 {
		spec.StartAt = around.Add(time.Duration(r.IntN(30*3600)) * time.Second)
	}
	if r.IntN(4) == 0 && spec.At == "" {
		spec.EndAt = around.Add(time.Duration(40*3600+r.IntN(20*3600)) * time.Second)
	}
	if spec.At != "" {
		spec.StartAt = time.Time{}
	}
	if r.IntN(4) == 0 && spec.At == "" {
		spec.Calendars = []schedule.Calendar{{Weekdays: []string{pick("sat", "sun", "mon")}}}
	}
	return spec
}

// due lists the due times of a job in a range by the oracle. The oracle knows no calendars, so they apply here.
func (j *loadJob) due(t *testing.T, times *auditor.Times, from, to time.Time) (out []time.Time) {
	t.Helper()
	if j.paused {
		return nil
	}
	spec := j.d.Schedule
	calendars := spec.Calendars
	spec.Calendars = nil
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	due, byOracle, err := times.Due(text, j.id,
		auditor.Window{From: from.Add(-time.Nanosecond), To: to.Add(-time.Nanosecond)})
	require.NoError(t, err)
	require.True(t, byOracle || strings.Contains(string(text), "at"), "%s", text)
	zone, err := time.LoadLocation(spec.Timezone)
	require.NoError(t, err)
	for _, at := range due {
		day := strings.ToLower(at.In(zone).Weekday().String()[:3])
		if len(calendars) == 0 || !slices.Contains(calendars[0].Weekdays, day) {
			out = append(out, at)
		}
	}
	return out
}

// nextChange returns the next time that the clocks of a zone change.
func nextChange(t *testing.T, zone string, after time.Time) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	_, before := after.In(loc).Zone()
	for at := after.Truncate(time.Hour); ; at = at.Add(time.Hour) {
		if _, offset := at.In(loc).Zone(); offset != before {
			return at
		}
	}
}

// TestLoadIsWhatTheOracleCounts, for random jobs, in the next hours, when some runs are planned already, and around
// changes of the clock.
func TestLoadIsWhatTheOracleCounts(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	r := rand.New(rand.NewPCG(1, 2))
	now := b.now()
	soon := now.Truncate(time.Minute).Add(5 * time.Minute)
	ranges := []time.Time{soon}
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"} {
		ranges = append(ranges, nextChange(t, zone, now.Add(48*time.Hour)).Add(-14*time.Hour))
	}
	var all []loadJob
	for i := range 300 {
		j := loadJob{id: uuid.Must(uuid.NewV7()), at: b.now()}
		j.d = definition(fmt.Sprintf("job-%03d", i), randomSchedule(r, ranges[i%len(ranges)]))
		j.d.Labels = map[string]string{"team": []string{"a", "b"}[i%2]}
		j.d.Queue = []string{"default", "slow", "fast"}[i%3]
		if i%3 == 0 { // due within the look-ahead, so its schedule has ended when its run is planned
			j.d.Schedule = schedule.Spec{At: soon.Add(time.Duration(i) * 500 * time.Millisecond).Format(time.RFC3339)}
		}
		created, err := b.store.CreateJob(t.Context(), job.CreateParams{
			Namespace: bulkNamespaceID, ID: j.id, Definition: j.d, Actor: "ann",
		})
		require.NoError(t, err, "%+v", j.d.Schedule)
		j.at = created.CreatedAt
		if r.IntN(8) == 0 {
			j.paused = true
			_, err = b.store.PauseJob(t.Context(), job.ChangeParams{Namespace: bulkNamespaceID, ID: j.id, Actor: "ann"}, "")
			require.NoError(t, err)
		}
		all = append(all, j)
	}
	for more := true; more; {
		planned, err := b.store.Plan(t.Context(), job.PlanParams{
			Partitions: everyPartition(), LookAhead: 8 * time.Minute, Cursors: 500,
		})
		require.NoError(t, err)
		more = planned.More
	}
	var ended int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM cursor WHERE next_due_at IS NULL`).Scan(&ended))
	require.Positive(t, ended, "some last runs are planned")

	times := auditor.NewTimes(true)
	for _, f := range []job.Filter{
		{}, {Queue: "slow"}, {Labels: []job.Label{{Key: "team", Value: "a"}}, Queue: "fast"}, {Queue: "none"},
	} {
		for _, from := range ranges {
			p := job.LoadParams{Namespace: bulkNamespaceID, Filter: f, From: from, To: from.Add(26 * time.Hour)}
			load, err := b.store.Load(t.Context(), p)
			require.NoError(t, err)
			require.True(t, load.Exact)
			want := make([]int64, 26*60)
			for i := range all {
				j := &all[i]
				if f.Queue != "" && j.d.Queue != f.Queue || len(f.Labels) > 0 && j.d.Labels["team"] != "a" {
					continue
				}
				for _, at := range j.due(t, times, load.From, load.To) {
					if !at.Before(load.From) {
						want[at.Sub(load.From)/time.Minute]++
					}
				}
			}
			require.Equal(t, want, load.Counts, "%+v from %s", f, from)
			if len(load.Hot) > 0 {
				require.Equal(t, slices.Max(want), load.Hot[0].Count)
				require.Equal(t, want[load.Hot[0].At.Sub(load.From)/time.Minute], load.Hot[0].Count)
			}
		}
	}
}

var bulkNamespaceID = uuid.MustParse(strings.Trim(bulkNamespace, "'"))

func everyPartition() (out []int16) {
	for p := range int16(256) {
		out = append(out, p)
	}
	return out
}

// sum adds up the counts of a load.
func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// load reads a load, again if a busy machine took too long for it.
func (b *bulk) load(p job.LoadParams) (load job.Load) {
	b.t.Helper()
	var err error
	require.Eventually(b.t, func() bool {
		load, err = b.store.Load(b.t.Context(), p)
		return !errors.Is(err, job.ErrSlowList)
	}, 5*time.Minute, time.Millisecond)
	require.NoError(b.t, err)
	return load
}

// TestALargeLoadIsASample that says so, whether the jobs share schedules or have one each, and also if one partition
// has too many schedules.
func TestALargeLoadIsASample(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]struct {
		jobs    func(b *bulk)
		days    int
		cursors int
		error   float64
	}{
		"shared schedules": {func(b *bulk) { b.shared(20_000) }, 1, 5_000, 0.1},
		"own schedules":    {func(b *bulk) { b.lonely(20_000) }, 6, 5_000, 0.2},
		"some schedules":   {func(b *bulk) { b.shared(20_000) }, 1, 30, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupBulk(t, nil)
			set.jobs(b)
			p := job.LoadParams{Namespace: bulkNamespaceID, From: b.now().Add(24 * time.Hour)}
			p.To = p.From.AddDate(0, 0, set.days)
			exact := b.load(p)
			require.True(t, exact.Exact)
			b.store.BoundLoads(1_000, 5_000, set.cursors)
			sample := b.load(p)
			require.False(t, sample.Exact)
			require.Less(t, sample.Fraction, 0.5)
			require.InEpsilon(t, sum(exact.Counts), sum(sample.Counts), set.error, "fraction %v", sample.Fraction)
		})
	}
}

// TestLoadsWalkTheirIndexes, whatever the statistics say.
func TestLoadsWalkTheirIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
	b.exec(`ALTER TABLE cursor SET (autovacuum_enabled = false)`)
	b.shared(10_000)
	b.pending(1)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'default')`, bulkNamespaceID)
	load := func(f job.Filter) func() {
		return func() {
			err := job.ErrSlowList
			for try := 0; errors.Is(err, job.ErrSlowList) && try < 20; try++ { // the plan counts, not the time
				_, err = b.store.Load(t.Context(), job.LoadParams{Namespace: bulkNamespaceID, Filter: f})
			}
			require.NoError(t, err)
		}
	}
	for _, statistics := range []string{"never analysed", "analysed"} {
		for name, bounds := range map[string][3]int{"exact": {120_000, 60_000, 5_000}, "sample": {1_000, 500, 10}} {
			b.store.BoundLoads(bounds[0], bounds[1], bounds[2])
			for _, f := range []job.Filter{{}, {Queue: "default"}} {
				ways := b.explain(r.during(load(f)), "force_custom_plan")
				for _, way := range ways {
					require.NotRegexp(t, `^(job|cursor)$`, way, "%s, %s, %v", statistics, name, ways)
				}
				require.Contains(t, ways, "job by partition cursor_id", "%s, %s, %v", statistics, name, ways)
			}
		}
		b.exec(`ANALYZE job, cursor`)
	}
}
