package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// statRow is a row of the bulk namespace.
func statRow(queue int32, minute time.Time, started int64) job.StatRow {
	r := job.StatRow{StatKey: job.StatKey{Namespace: bulkUUID(), Queue: queue, Minute: minute}}
	r.Started = started
	for range started {
		r.Lateness.Count(10 * time.Millisecond)
	}
	return r
}

// TestStatsOfProcessesAdd: what several processes wrote is added up, a row that is written again replaces itself, and
// another namespace sees none of it.
func TestStatsOfProcessesAdd(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE
		VALUES (1, ` + bulkNamespace + `, 'default'), (2, ` + bulkNamespace + `, 'slow')`)
	ctx, now := t.Context(), b.now().UTC().Truncate(time.Minute)
	one, two := uuid.New(), uuid.New()
	write := func(process uuid.UUID, rows ...job.StatRow) {
		require.NoError(t, b.store.WriteStats(ctx, process, rows, false))
	}
	process := job.StatRow{StatKey: job.StatKey{Minute: now}}
	write(one, process, statRow(0, now, 5), statRow(1, now, 3), statRow(2, now, 2), statRow(0, now.Add(-time.Hour), 1))
	write(two, process, statRow(0, now, 10), statRow(1, now, 10))
	write(one, process, statRow(0, now, 6), statRow(1, now, 4), statRow(2, now, 2)) // again, and one more

	p := job.StatParams{
		Namespace: bulkUUID(), From: now.Add(-2 * time.Hour), To: now.Add(time.Minute), Step: time.Minute,
	}
	var s job.Stats
	sent := r.during(func() {
		var err error
		s, err = b.store.Stats(ctx, p)
		require.NoError(t, err)
	})
	require.Len(t, s.Series, 1)
	points := s.Series[0].Points
	require.Len(t, points, 121)
	require.EqualValues(t, 16, points[120].Started)
	require.True(t, points[120].Counted)
	require.EqualValues(t, 1, points[60].Started)
	require.False(t, points[60].Counted, "no process says that it was counting")
	p50, ok := points[120].Lateness.Quantile(0.5)
	require.True(t, ok)
	require.InDelta(t, 10, p50.Seconds()*1000, 4)

	p.ByQueue = true
	s, err := b.store.Stats(ctx, p)
	require.NoError(t, err)
	require.Len(t, s.Series, 2)
	require.Equal(t, "default", s.Series[0].Queue)
	require.EqualValues(t, 14, s.Series[0].Points[120].Started)
	p.ByQueue, p.Queue, p.Step = false, "slow", time.Hour
	p.From = now.Truncate(time.Hour).Add(-time.Hour)
	sent = append(sent, r.during(func() { s, err = b.store.Stats(ctx, p) })...)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Series[0].Points[len(s.Series[0].Points)-1].Started)

	p.Queue, p.Namespace = "", uuid.New()
	s, err = b.store.Stats(ctx, p)
	require.NoError(t, err)
	for _, point := range s.Series[0].Points {
		require.Zero(t, point.Started)
	}

	b.exec(`INSERT INTO stat_minute SELECT namespace_id, queue_id, minute - g * interval '1 min', process_id, started,
		succeeded, failed, cancelled, skipped, missed, late, audited, lateness, written_at, attempts,
		attempt_ms
		FROM stat_minute, generate_series(1, 5000) g WHERE minute = $1 ON CONFLICT DO NOTHING`, now)
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := slices.DeleteFunc(b.explain(sent, "force_custom_plan"), func(way string) bool {
			return strings.HasPrefix(way, "sort of")
		})
		require.Equal(t, []string{"queue", "stat_minute by namespace_id queue_id minute"}, ways, statistics)
		b.exec(`ANALYZE stat_minute`)
	}
	n, err := b.store.DropStats(ctx, time.Hour, 100)
	require.NoError(t, err)
	require.Equal(t, 100, n)
}

// TestStatsOfKilledProcessesAreIncomplete: a process that stopped writing within a minute may have counted more. One that
// stopped in order, or goes on, has not.
func TestStatsOfKilledProcessesAreIncomplete(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	ctx, now := t.Context(), b.now().UTC().Truncate(time.Minute)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	write := func(last bool, minutes ...int) uuid.UUID {
		process := uuid.New()
		for _, m := range minutes {
			own := job.StatRow{StatKey: job.StatKey{Minute: at(m)}}
			require.NoError(t, b.store.WriteStats(ctx, process, []job.StatRow{own, statRow(0, at(m), 1)}, last))
		}
		return process
	}
	incomplete := func() (out []int) {
		s, err := b.store.Stats(ctx, job.StatParams{
			Namespace: bulkUUID(), From: at(-10), To: at(1), Step: time.Minute,
		})
		require.NoError(t, err)
		for i, p := range s.Series[0].Points {
			if p.Incomplete {
				out = append(out, i-10)
			}
		}
		return out
	}
	write(true, -9, -8) // stopped in order
	write(false, -1, 0) // goes on: these minutes were written after their end, or just now
	require.Empty(t, incomplete())

	killed := write(false, -6, -5)
	b.exec(`UPDATE stat_minute SET written_at = minute + interval '61 s' WHERE process_id = $1 AND minute = $2`, killed, at(-6))
	b.exec(`UPDATE stat_minute SET written_at = minute + interval '20 s' WHERE process_id = $1 AND minute = $2`, killed, at(-5))
	require.Equal(t, []int{-5}, incomplete())
	b.exec(`UPDATE stat_minute SET written_at = minute + interval '57 s' WHERE process_id = $1 AND minute = $2`, killed, at(-5))
	require.Equal(t, []int{-5, -4}, incomplete(), "it may have died in the next minute")
}

// TestStatsOfManyQueuesAreBounded: the answer has few series, however many queues there are, and says so.
func TestStatsOfManyQueuesAreBounded(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE
		SELECT g, ` + bulkNamespace + `, 'queue-' || lpad(g::text, 4, '0') FROM generate_series(1, 300) g`)
	ctx, now := t.Context(), b.now().UTC().Truncate(time.Minute)
	process := uuid.New()
	var rows []job.StatRow
	for queue := range int32(300) {
		rows = append(rows, statRow(queue+1, now, int64(queue)), statRow(queue+1, now.Add(-20*time.Hour), 1))
	}
	require.NoError(t, b.store.WriteStats(ctx, process, rows, false))
	read := func(width time.Duration) job.Stats {
		s, err := b.store.Stats(ctx, job.StatParams{
			Namespace: bulkUUID(), From: now.Add(time.Minute - width), To: now.Add(time.Minute), Step: time.Minute, ByQueue: true,
		})
		require.NoError(t, err)
		points := 0
		for _, one := range s.Series {
			points += len(one.Points)
		}
		require.LessOrEqual(t, points, job.MaxStatPoints)
		require.True(t, s.Partial)
		return s
	}
	s := read(time.Hour)
	require.Len(t, s.Series, job.MaxStatSeries)
	require.Equal(t, "queue-0251", s.Series[0].Queue, "the busiest")
	require.EqualValues(t, 250, s.Series[0].Points[59].Started)
	s = read(24 * time.Hour)
	require.Len(t, s.Series, job.MaxStatPoints/1440)
	require.EqualValues(t, 1, s.Series[0].Points[1440-1-20*60].Started)

	b.exec(`DELETE FROM stat_minute WHERE queue_id > 2`)
	s, err := b.store.Stats(ctx, job.StatParams{
		Namespace: bulkUUID(), From: now.Add(-time.Hour), To: now.Add(time.Minute), Step: time.Minute, ByQueue: true,
	})
	require.NoError(t, err)
	require.Len(t, s.Series, 2)
	require.False(t, s.Partial, "queues in which nothing happened are not left out")
}

// TestQueuesThatWereNotCountedAreMarked: a queue without a row is idle, unless the process that might have written it left
// queues out.
func TestQueuesThatWereNotCountedAreMarked(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE
		VALUES (1, ` + bulkNamespace + `, 'busy'), (2, ` + bulkNamespace + `, 'slow')`)
	ctx, now := t.Context(), b.now().UTC().Truncate(time.Minute)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	write := func(rows ...job.StatRow) {
		for i := range rows {
			rows = append(rows, job.StatRow{StatKey: job.StatKey{Minute: rows[i].Minute}})
		}
		slices.SortFunc(rows, func(a, b job.StatRow) int { return a.Minute.Compare(b.Minute) })
		rows = slices.CompactFunc(rows, func(a, b job.StatRow) bool { return a.StatKey == b.StatKey })
		require.NoError(t, b.store.WriteStats(ctx, uuid.New(), rows, true))
	}
	write(statRow(1, at(-4), 5), statRow(1, at(-3), 5), statRow(1, at(-2), 5), statRow(job.StatRest, at(-2), 1))
	write(statRow(2, at(-3), 2), statRow(2, at(-2), 2))
	read := func(p job.StatParams) (out map[string]string, partial bool) {
		p.Namespace, p.From, p.To = bulkUUID(), at(-5), at(1)
		if p.Step = time.Minute; p.Queue == "busy" {
			p.Step = 6 * time.Minute
		}
		s, err := b.store.Stats(ctx, p)
		require.NoError(t, err)
		out = map[string]string{}
		for _, one := range s.Series {
			for _, point := range one.Points {
				mark := map[bool]string{false: "?", true: fmt.Sprint(point.Started)}[point.Counted]
				out[one.Queue] += mark + map[bool]string{true: "+"}[point.Incomplete] + " "
			}
		}
		return out, s.Partial
	}
	series, partial := read(job.StatParams{ByQueue: true})
	require.Equal(t, map[string]string{"busy": "? 5 5 5 ? ? ", "slow": "? 0 2 2+ ? ? "}, series)
	require.True(t, partial)
	_, partial = read(job.StatParams{})
	require.False(t, partial, "the sum of all queues has them")
	_, partial = read(job.StatParams{Queue: "busy"})
	require.False(t, partial, "it was counted")

	write(statRow(job.StatRest, at(-4), 1))
	series, partial = read(job.StatParams{Queue: "slow"})
	require.Equal(t, map[string]string{"slow": "? ? 2 2+ ? ? "}, series, "0 is not known")
	require.True(t, partial)
	series, _ = read(job.StatParams{Queue: "none"})
	require.Equal(t, map[string]string{"none": "? ? 0 ? ? ? "}, series)

	b.exec(`INSERT INTO stat_minute SELECT namespace_id, queue_id, minute, gen_random_uuid(), started,
		succeeded, failed, cancelled, skipped, missed, late, audited, lateness, written_at, attempts,
		attempt_ms
		FROM stat_minute, generate_series(1, $1) WHERE queue_id = 1 AND minute = $2`, job.MaxStatRows, at(-2))
	series, partial = read(job.StatParams{Queue: "busy", ByQueue: true})
	require.True(t, partial)
	require.Contains(t, series["busy"], "+")
	s, err := b.store.Stats(ctx, job.StatParams{Namespace: bulkUUID(), From: at(-5), To: at(1), Step: time.Minute, Queue: "busy"})
	require.NoError(t, err)
	require.False(t, s.Series[0].Points[1].Counted, "older than what was read")
	require.True(t, s.Series[0].Points[3].Incomplete)
}
