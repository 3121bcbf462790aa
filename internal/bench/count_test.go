package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/bench/scratch"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// ended is a benchmark whose backlog is worked off by the store's calls alone.
func ended(t *testing.T, jobs int) (*bench, backlog, *pgx.Conn) {
	t.Helper()
	ctx := t.Context()
	made, err := scratch.Create(ctx, pgtest.EmptyURL(t))
	require.NoError(t, err)
	b := &bench{Options: Options{Jobs: jobs, Target: Noop, Log: t.Output()}, scratch: made}
	t.Cleanup(func() { require.NoError(t, b.close(context.Background())) })
	require.NoError(t, b.open(ctx, &Result{}))
	const schedules = 7
	require.NoError(t, b.load(ctx, schedules))
	now, err := made.Now(ctx)
	require.NoError(t, err)
	l := newBacklog(now, schedules)
	var sum rates
	require.NoError(t, b.bareRound(ctx, l, 0, &sum))
	require.InDelta(t, jobs, sum.runs, 0)
	require.Positive(t, sum.seconds)
	conn, err := pgx.Connect(ctx, made.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return b, l, conn
}

func (b *bench) mustCount(t *testing.T, l backlog) (runs, lost, duplicates int64) {
	t.Helper()
	var r Result
	require.NoError(t, b.count(t.Context(), &r, l.expected))
	if r.Lost > 0 {
		require.Error(t, r.Err())
	} else {
		require.NoError(t, r.Err())
	}
	return r.Runs, r.Lost, r.Duplicates
}

func change(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// TestCountLedger removes rows from the ledger, which must be reported.
func TestCountLedger(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	b, l, conn := ended(t, jobs)
	requireCount := func(wantRuns, wantLost, wantDuplicates int64) {
		t.Helper()
		runs, lost, duplicates := b.mustCount(t, l)
		require.Equal(t, [3]int64{wantRuns, wantLost, wantDuplicates}, [3]int64{runs, lost, duplicates})
	}
	requireCount(jobs, 0, 0)
	change(t, conn, `DELETE FROM run_history WHERE job_id IN (SELECT id FROM job ORDER BY id LIMIT 3)`)
	requireCount(jobs-3, 3, 0)
	change(t, conn, `UPDATE run_history SET ended = 2 WHERE job_id IN (SELECT id FROM job ORDER BY id DESC LIMIT 2)`)
	requireCount(jobs-5, 5, 0)
	change(t, conn,
		`UPDATE run_history SET due_at = due_at + interval '1 s' WHERE job_id IN (SELECT id FROM job ORDER BY id `+
			`OFFSET 10 LIMIT 1)`)
	requireCount(jobs-6, 6, 0)
	change(t, conn,
		`UPDATE run_history SET attempt = 3 WHERE job_id IN (SELECT id FROM job ORDER BY id OFFSET 20 LIMIT 1)`)
	requireCount(jobs-6, 6, 2)
	change(t, conn,
		`INSERT INTO run_history SELECT * FROM run_history WHERE job_id IN (SELECT id FROM job ORDER BY id OFFSET 30 `+
			`LIMIT 1)`)
	requireCount(jobs-6, 6, 3)
	change(t, conn, `DELETE FROM job WHERE id IN (SELECT id FROM job ORDER BY id OFFSET 40 LIMIT 1)`)
	requireCount(jobs-7, 7, 3)
}

// TestCountReceipts takes from what the sink received.
func TestCountReceipts(t *testing.T) {
	t.Parallel()
	const jobs = 200
	b, l, _ := ended(t, jobs)
	b.sink = newSink()
	t.Cleanup(func() { b.sink = nil }) // it has no process
	var ids []string
	require.NoError(t, b.scratch.Occurrences(t.Context(), l.expected, func(o scratch.Occurrence) error {
		ids = append(ids, job.FormatRunID(o.Key))
		return nil
	}))
	require.Len(t, ids, jobs)
	require.NoError(t, b.sink.read(bytes.NewBufferString("http://127.0.0.1:1/\n"+strings.Join(ids, "\n")+"\n")))
	runs, lost, duplicates := b.mustCount(t, l)
	require.Equal(t, [3]int64{jobs, 0, 0}, [3]int64{runs, lost, duplicates})

	delete(b.sink.received, ids[0])
	b.sink.received[ids[1]] = 3
	runs, lost, duplicates = b.mustCount(t, l)
	require.Equal(t, [3]int64{jobs - 1, 1, 2}, [3]int64{runs, lost, duplicates})
}

func TestStartsReachTheParent(t *testing.T) {
	t.Parallel()
	var r recorder
	var pipe bytes.Buffer
	for _, late := range []time.Duration{3 * time.Millisecond, -time.Microsecond, time.Hour} {
		r.started(late)
		require.NoError(t, r.flush(&pipe))
	}
	require.NoError(t, r.flush(&pipe), "nothing more is fine")
	var s starts
	require.NoError(t, s.read(&pipe))
	got := s.take()
	require.Len(t, got, 3)
	require.Equal(t, []time.Duration{3 * time.Millisecond, -time.Microsecond, time.Hour},
		[]time.Duration{got[0].late, got[1].late, got[2].late})
	require.False(t, got[2].at.Before(got[0].at))
	require.Zero(t, s.count())
	require.Error(t, s.read(bytes.NewReader(make([]byte, startBytes+1))), "half a start")
}

func TestLateness(t *testing.T) {
	t.Parallel()
	require.Zero(t, latenessOf(nil))
	var all []start
	for i := 100; i > 0; i-- {
		all = append(all, start{late: time.Duration(i) * time.Millisecond})
	}
	require.Equal(t, Lateness{First: 1, P50: 50, P95: 95, P99: 99, Max: 100}, latenessOf(all))
	require.Equal(t, Lateness{First: 7, P50: 7, P95: 7, P99: 7, Max: 7},
		latenessOf([]start{{late: 7 * time.Millisecond}}))
}
