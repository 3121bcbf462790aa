package cluster_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/oracle"
)

// overviewShown is what is judged of an overview.
type overviewShown struct {
	Now  time.Time
	Late struct {
		Runs   int64
		More   bool
		Oldest *time.Time `json:"oldest_due_at"`
	}
	Running, Retrying, Accepted int64
	Dead                        struct{ Count int64 } `json:"dead_letters"`
	Ended                       struct {
		Succeeded, Failed, Skipped, Missed int64
	} `json:"ended_1h"`
	Incomplete bool `json:"ended_1h_incomplete"`
}

// lateAt counts the runs that had been late for 3 seconds at an instant of the past, $1: what is still so has been so
// since then. Occurrences that no node planned are late too, and runs of a node whose session had ended by then.
const lateAt = `
SELECT count(*), min(at) FROM (
    SELECT run_at AS at FROM run
    WHERE state = 0 AND run_at <= $1::timestamptz - interval '3 s'
    UNION ALL
    SELECT c.next_due_at FROM cursor c JOIN job j ON j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1
    WHERE c.broken_at IS NULL AND c.next_due_at <= $1::timestamptz - interval '3 s' AND j.plan_from <= c.next_due_at
      AND (j.end_at IS NULL OR c.next_due_at < j.end_at)) x`

const deadLetters = `SELECT clock_timestamp(), count(*) FROM dead_letter`

// overview compares an overview with the ledger.
func (s *shown) overview(ctx context.Context) {
	var before, after time.Time
	var deadBefore, deadAfter, late int64
	var oldest *time.Time
	var o overviewShown
	if !s.query(ctx, deadLetters, nil, &before, &deadBefore) || !s.get(ctx, "/overview", &o) ||
		!s.query(ctx, lateAt, []any{o.Now}, &late, &oldest) || !s.query(ctx, deadLetters, nil, &after, &deadAfter) {
		return
	}
	if late > 0 {
		s.mu.Lock()
		s.late++
		s.mu.Unlock()
	}
	if o.Late.Runs < late && !o.Late.More {
		s.wrong("overview of %s: %d late, and %d runs had been late for 3 s, since %v", o.Now, o.Late.Runs, late, oldest)
	}
	if oldest != nil && !o.Late.More && (o.Late.Oldest == nil || o.Late.Oldest.After(*oldest)) {
		s.wrong("overview of %s: the oldest is due at %v, and one is at %s", o.Now, o.Late.Oldest, oldest)
	}
	if o.Now.After(after) {
		s.wrong("an overview of %s was read at %s", o.Now, after)
	}
	if o.Dead.Count > deadAfter || !o.Now.Before(before) && o.Dead.Count < deadBefore {
		s.wrong("overview of %s: %d dead letters, and there were %d before and %d after", o.Now, o.Dead.Count, deadBefore,
			deadAfter)
	}
	var succeeded, failed, skipped int64
	if s.query(ctx, ended, nil, &succeeded, &failed, &skipped) &&
		(o.Ended.Succeeded > succeeded || o.Ended.Failed > failed || o.Ended.Skipped > skipped) {
		s.wrong("overview of %s: %+v ended, and the ledger has %d, %d and %d", o.Now, o.Ended, succeeded, failed, skipped)
	}
}

// The ended runs by how, of all jobs and of one.
const (
	ended = `
SELECT count(*) FILTER (WHERE ended = 1), count(*) FILTER (WHERE ended = 2), count(*) FILTER (WHERE ended = 4)
FROM run_history`
	endOf = ended + ` WHERE job_id = $1`
)

type counts struct{ succeeded, failed, skipped int64 }

func (s *shown) ends(ctx context.Context, j job.Job) (n counts, ok bool) {
	ok = s.query(ctx, endOf, []any{j.ID}, &n.succeeded, &n.failed, &n.skipped)
	return n, ok
}

// within reports whether all counts of n are between those of two others.
func (n counts) within(a, b counts) bool {
	return a.succeeded <= n.succeeded && n.succeeded <= b.succeeded && a.failed <= n.failed && n.failed <= b.failed &&
		a.skipped <= n.skipped && n.skipped <= b.skipped
}

// job compares the timeline and the numbers of a job with the ledger. They are not cached, so what was in the ledger
// before is in them.
func (s *shown) job(ctx context.Context) {
	j := s.c.jobs[rand.IntN(len(s.c.jobs))]
	path := "/jobs/" + job.FormatJobID(j.ID)
	before, ok := s.ends(ctx, j)
	var line timelineShown
	if !ok || !s.get(ctx, path+"/timeline", &line) {
		return
	}
	after, ok := s.ends(ctx, j)
	if !ok {
		return
	}
	if n, due := line.count(), line.due(); line.Partial || !n.within(before, after) {
		s.wrong("timeline of %s at %s: %+v, and the ledger had %+v before and %+v after", j.Name, line.Now, n, before, after)
	} else if want := len(dueOf(j, s.c.end, line.Now)); due != want {
		s.wrong("timeline of %s at %s: %d occurrences of %d", j.Name, line.Now, due, want)
	}
	var n struct {
		Succeeded, Failed, Skipped, Missed, Unknown int64
		Partial                                     bool
	}
	if !s.get(ctx, path+"/stats", &n) {
		return
	}
	later, ok := s.ends(ctx, j)
	if ok && (n.Partial || n.Unknown > 0 || n.Missed > 0 || !(counts{n.Succeeded, n.Failed, n.Skipped}).within(after, later)) {
		s.wrong("numbers of %s: %+v, and the ledger had %+v before and %+v after", j.Name, n, after, later)
	}
}

// timelineShown is what is judged of a timeline.
type timelineShown struct {
	Now     time.Time
	Partial bool
	Items   []struct {
		Due   time.Time `json:"due_at"`
		State string
	}
	Buckets []struct{ Succeeded, Failed, Cancelled, Skipped, Missed, Live, Planned, Paused, Unknown int64 }
}

func (l *timelineShown) count() (n counts) {
	for _, i := range l.Items {
		switch i.State {
		case "succeeded":
			n.succeeded++
		case "failed":
			n.failed++
		case "skipped":
			n.skipped++
		}
	}
	for _, b := range l.Buckets {
		n.succeeded, n.failed, n.skipped = n.succeeded+b.Succeeded, n.failed+b.Failed, n.skipped+b.Skipped
	}
	return n
}

// due is how many occurrences up to now there are, each of them once and with a state that the ledger explains.
func (l *timelineShown) due() (n int) {
	var seen []time.Time
	for _, i := range l.Items {
		if !i.Due.After(l.Now) && i.State != "unknown" && i.State != "forgotten" && !slices.Contains(seen, i.Due) {
			seen = append(seen, i.Due)
		}
	}
	for _, b := range l.Buckets {
		n += int(b.Succeeded + b.Failed + b.Cancelled + b.Skipped + b.Missed + b.Live)
	}
	return n + len(seen)
}

// dueOf lists the due times of a job of each second up to an instant.
func dueOf(j job.Job, end, now time.Time) []time.Time {
	if last := end.Add(-time.Nanosecond); now.After(last) {
		now = last
	}
	return oracle.Every(j.CreatedAt.Truncate(time.Second), time.Second, j.CreatedAt, now)
}

// load compares the load ahead with the schedules. It may be 5 seconds old, so the minutes that are compared begin
// later than all of them and than the end of the other jobs.
func (s *shown) load(ctx context.Context) {
	from := s.c.end.Add(2 * time.Minute).Truncate(time.Minute)
	to := from.Add(3 * time.Hour)
	var l struct {
		Counts []int64
		Exact  bool
	}
	if !s.get(ctx, "/load?from="+from.UTC().Format(time.RFC3339)+"&to="+to.UTC().Format(time.RFC3339), &l) {
		return
	}
	want := make([]int64, to.Sub(from)/time.Minute)
	for _, period := range longPeriods {
		anchor := time.Unix(from.Unix()-from.Unix()%int64(period/time.Second), 0)
		for _, due := range oracle.Every(anchor, period, from.Add(-1), to.Add(-1)) {
			want[due.Sub(from)/time.Minute]++
		}
	}
	if !l.Exact || !slices.Equal(want, l.Counts) {
		s.wrong("load from %s: exact %t, %v, and the schedules have %v", from, l.Exact, l.Counts[:20], want[:20])
	}
}

// finish waits until all is quiet. Then what is shown is what the ledger says.
func (s *shown) finish() {
	t, c := s.c.t, s.c
	t.Helper()
	c.finish(3 * time.Minute)
	a := c.audit()
	require.Zero(t, a.Wrong()+a.Duplicates+a.Unreadable, "%+v", a.Findings[:min(len(a.Findings), 5)])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at := c.now()
	var o overviewShown
	require.NoError(t, until(ctx, func() bool {
		o = overviewShown{}
		return s.get(ctx, "/overview", &o) && !o.Now.Before(at) && !o.Late.More // all live runs were read in time
	}), "%+v", o)
	require.Zero(t, o.Late.Runs+o.Running+o.Retrying+o.Accepted, "%+v", o)
	for range 2 * len(c.jobs) {
		s.job(ctx)
	}
	t.Logf("kills=%d answers=%v, without=%d, overviews that had to have late runs=%d", c.kills, s.asked, s.silent, s.late)
	require.Positive(t, s.late, "no run was late: the test shows nothing")
}

// statistics waits until the statistics are exactly what the ledger says or, if nodes were killed, no more than that and
// marked as incomplete.
func (s *shown) statistics(killed bool) {
	t, c := s.c.t, s.c
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), allowed(20*time.Second))
	defer cancel()
	var want, got counts
	incomplete := false
	require.True(t, s.query(ctx, ended, nil, &want.succeeded, &want.failed, &want.skipped))
	var st struct {
		Series []struct {
			Points []struct {
				Succeeded, Failed, Skipped int64
				Incomplete                 bool
			}
		}
	}
	var o overviewShown
	err := until(ctx, func() bool {
		if !s.get(ctx, "/stats", &st) || !s.get(ctx, "/overview", &o) {
			return false
		}
		got, incomplete = counts{}, false
		for _, p := range st.Series[0].Points {
			got.succeeded, got.failed, got.skipped = got.succeeded+p.Succeeded, got.failed+p.Failed, got.skipped+p.Skipped
			incomplete = incomplete || p.Incomplete
		}
		same := o.Ended.Succeeded == got.succeeded && o.Ended.Failed == got.failed &&
			o.Ended.Skipped+o.Ended.Missed == want.skipped // skips are counted in the ledger
		return same && o.Incomplete == incomplete && incomplete == killed &&
			(got == want || killed && got.within(counts{}, want))
	})
	require.NoError(t, err, "statistics %+v, incomplete %t, overview %+v, ledger %+v (%s)", got, incomplete, o.Ended, want,
		c.end)
	t.Logf("statistics %+v, incomplete %t, ledger %+v", got, incomplete, want)
}
