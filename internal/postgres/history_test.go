package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// openReader opens a transaction that has read the history and keeps it, as pg_dump does.
func openReader(t testing.TB, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pool.Config().ConnString())
	require.NoError(t, err)
	_, err = conn.Exec(
		t.Context(), `BEGIN; SELECT FROM run_history LIMIT 1; SELECT FROM run_output LIMIT 1`,
		pgx.QueryExecModeSimpleProtocol,
	)
	require.NoError(t, err)
	return func() { require.NoError(t, conn.Close(context.Background())) }
}

func days(t testing.TB, pool *pgxpool.Pool, parent string) (n int) {
	t.Helper()
	row := pool.QueryRow(
		context.WithoutCancel(t.Context()), `SELECT count(*) FROM pg_inherits WHERE inhparent = $1::regclass`, parent,
	)
	require.NoError(t, row.Scan(&n))
	return n
}

// TestDaysOfHistoryBehindAReader: a transaction that reads the history for hours, such as pg_dump, keeps no day from
// being created. A day that it keeps from being dropped is left for later. Completions do not wait for either.
func TestDaysOfHistoryBehindAReader(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	server := pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	release := openReader(t, b.pool)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // the reader stays for longer
	defer cancel()
	had := days(t, b.pool, "run_history")
	var changes sync.WaitGroup
	var created, dropped error
	changes.Go(func() {
		created = server.CreateHistory(ctx, 3)
		_, dropped = server.DropHistory(ctx, 0)
	})
	require.Eventually(t, func() bool { // both wait, or are done
		return days(t, b.pool, "run_history") == had+2 || waiting(t, b.pool) > 0
	}, 2*time.Minute, time.Millisecond)
	fenced, err := b.store.CompleteSucceeded(ctx, []job.Completion{{Key: b.key, Attempt: 1, Session: b.session}})
	require.NoError(t, err, "a completion waits for the days of history")
	require.Zero(t, fenced)
	changes.Wait()
	require.NoError(t, created)
	require.ErrorIs(t, dropped, job.ErrInUse)
	require.ErrorContains(t, dropped, "run_history_")
	require.Equal(t, had+2, days(t, b.pool, "run_history"))
	require.Equal(t, had+2, days(t, b.pool, "run_output"))
	var indexes []string
	require.NoError(t, b.pool.QueryRow(t.Context(), sameIndexes).Scan(&indexes))
	require.Empty(t, indexes, "each index of the history is on each day, with the same options")

	release()
	gone, err := server.DropHistory(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, gone, 2, "yesterday's history and output")
	require.Equal(t, had+1, days(t, b.pool, "run_history"))
}

// TestADayThatTheArchiveNeedsIsNotDropped: neither one that it does not have, nor one that gets a row while the drop waits.
func TestADayThatTheArchiveNeedsIsNotDropped(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	server := pgtest.NewStore(pgtest.AsServer(t, b.pool))
	j := b.create(definition("a", everyHour))
	day := b.now().Truncate(24*time.Hour).AddDate(0, 0, -40)
	b.keepHistoryDay(day)
	table := day.Format("run_history_20060102")
	there := func() bool { return b.count(`pg_class WHERE relname = $1`, table) == 1 }
	drop := func() {
		if dropped, err := server.DropHistory(t.Context(), 30*24*time.Hour); err != nil {
			assert.ErrorIs(t, err, job.ErrInUse)
		} else {
			assert.Empty(t, dropped)
		}
	}
	b.exec(`UPDATE archive_setting SET required = true`)
	drop()
	require.True(t, there())

	require.Equal(t, 1, b.count(`belfry_close_history() d WHERE d = $1`, day))
	b.exec(`UPDATE archive_day SET archived_at = now()`)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
SELECT partition, 0, 1, id, $2, $2, $2, 1, 1, 0, 0, queue_id FROM job WHERE id = $1`, j.ID, day)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { defer close(done); drop() }()
	require.Eventually(t, func() bool { // it waits, or has given up
		select {
		case <-done:
			return true
		default:
			return waiting(t, b.pool) > 0
		}
	}, 2*time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	<-done
	drop()
	require.True(t, there())
}

// sameIndexes lists the indexes of history and output that are not on a day, or with other options.
const sameIndexes = `
SELECT coalesce(array_agg(format('%s on %s', i.indexrelid::regclass, d.inhrelid::regclass)), '{}')
FROM pg_index i JOIN pg_class parent ON parent.oid = i.indexrelid JOIN pg_inherits d ON d.inhparent = i.indrelid
WHERE i.indrelid IN ('run_history'::regclass, 'run_output'::regclass) AND NOT EXISTS (
    SELECT FROM pg_inherits a JOIN pg_index x ON x.indexrelid = a.inhrelid JOIN pg_class c ON c.oid = a.inhrelid
    WHERE a.inhparent = i.indexrelid AND x.indrelid = d.inhrelid
      AND c.reloptions IS NOT DISTINCT FROM parent.reloptions)`

// waiting returns how many statements wait for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	row := pool.QueryRow(
		t.Context(),
		`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
	)
	require.NoError(t, row.Scan(&n))
	return n
}

// TestHistoryUnderLoadBehindAReader measures the path while a transaction reads the history and, at the same time, days
// are created and a day is to be dropped, far more often than nodes do. BELFRY_HISTORY_READER_SECONDS=600 is the long
// form.
func TestHistoryUnderLoadBehindAReader(t *testing.T) {
	const short = 4
	long := fromEnv(t, "BELFRY_HISTORY_READER_SECONDS", short)
	seconds := time.Duration(long) * time.Second
	p := &path{bulk: setupBulk(t, nil), workers: 2}
	p.rounds, p.group = make([]int, p.workers), 5
	p.shared(50_000)
	p.exec(`VACUUM ANALYZE job, cursor`)
	p.rate("warm up", phase{lasts: seconds / 8})
	before := p.rate("without a reader", phase{lasts: seconds / 4})
	alone := p.longest

	release := openReader(t, p.pool)
	had := days(t, p.pool, "run_history")
	stop, ended := make(chan struct{}), make(chan error, 1)
	created, refused := 0, 0
	go func() {
		for pause := time.NewTicker(min(10*time.Second, seconds/4)); ; {
			created++
			err := p.store.CreateHistory(context.WithoutCancel(t.Context()), 1+created)
			if err == nil {
				_, err = p.store.DropHistory(context.WithoutCancel(t.Context()), 0)
			}
			if !errors.Is(err, job.ErrInUse) {
				ended <- fmt.Errorf("create and drop behind a reader: %w", err)
				return
			}
			refused++
			select {
			case <-stop:
				ended <- nil
				return
			case <-pause.C:
			}
		}
	}()
	open := p.rate("with a reader", phase{lasts: seconds})
	longest := p.longest
	close(stop)
	require.NoError(t, <-ended)
	require.Equal(t, had+created, days(t, p.pool, "run_history"), "days are created behind a reader")
	release()
	gone, err := p.store.DropHistory(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, gone, 2, "days are dropped once the reader is gone")
	after := p.rate("without a reader again", phase{lasts: seconds / 4}) // the machine may have become slower or faster meanwhile
	ratio := 2 * open.rate / (before.rate + after.rate)
	t.Logf(
		"seconds=%d created=%d drops_refused=%d dropped_later=%d longest_completion=%s (without a reader %s) throughput=%.2f",
		long, created, refused, len(gone), longest.Round(time.Millisecond),
		max(alone, p.longest).Round(time.Millisecond), ratio,
	)
	if long > short {
		require.Less(t, longest, time.Second)
		require.Greater(t, ratio, 0.9)
	}
}

// Nodes that start at the same time create the same days. Each waits for the one before and finds what it created.
func TestNodesCreateDaysAtTheSameTime(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	var nodes sync.WaitGroup
	for range 8 {
		nodes.Go(func() { assert.NoError(t, store.CreateHistory(t.Context(), 20)) })
	}
	nodes.Wait()
	require.False(t, t.Failed())
}
