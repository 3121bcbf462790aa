package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// expired is a store with rows to prune: how many are left for each step.
type expired struct {
	days, keep         int
	followed           int // calls of FollowZones
	ended, oneOffs     int
	outputs, responses int
	skips, logins      int
	stats, operations  int
	broken             error // of RemoveJobs
}

func (e *expired) CreateHistory(_ context.Context, daysAhead int) error {
	e.days = daysAhead
	return nil
}

func (e *expired) DropHistory(_ context.Context, keep time.Duration) ([]string, error) {
	e.keep = int(keep / (24 * time.Hour))
	return []string{"run_history_20260101"}, nil
}

func (e *expired) FollowZones(context.Context, job.FollowZonesParams) (int64, error) {
	e.followed++
	return 3, nil
}

func remove(from *int, limit int) (int, error) {
	n := min(*from, limit)
	*from -= n
	return n, nil
}

func (e *expired) FinishJobs(_ context.Context, limit int) (int, error) {
	return remove(&e.ended, limit)
}

func (e *expired) RemoveJobs(_ context.Context, limit int) (int, error) {
	if e.broken != nil {
		return 0, e.broken
	}
	return remove(&e.oneOffs, limit)
}

func (e *expired) DropStaleOutputs(_ context.Context, limit int) (int, error) {
	return remove(&e.outputs, limit)
}

func (e *expired) DropIdempotentResponses(_ context.Context, limit int) (int, error) {
	return remove(&e.responses, limit)
}

func (e *expired) DropSkips(_ context.Context, _ time.Duration, limit int) (int, error) {
	return remove(&e.skips, limit)
}

func (e *expired) DropOperations(_ context.Context, keep time.Duration, limit int) (int, error) {
	if keep != 30*24*time.Hour {
		return 0, errors.New("another retention")
	}
	return remove(&e.operations, limit)
}

func (e *expired) DropLogins(_ context.Context, limit int) (int, error) {
	return remove(&e.logins, limit)
}

func (e *expired) DropStats(_ context.Context, keep time.Duration, limit int) (int, error) {
	if keep != job.KeepStats {
		return 0, errors.New("another retention")
	}
	return remove(&e.stats, limit)
}

func TestPruneRemovesEverythingInBatches(t *testing.T) {
	t.Parallel()
	s := &expired{
		ended: 1, oneOffs: 2500, outputs: pruneBatch, responses: 3 * pruneBatch, skips: 7, logins: pruneBatch + 1,
		stats: pruneBatch + 2, operations: pruneBatch + 3,
	}
	var log bytes.Buffer
	e := New(Options{
		Member: ownsAll{}, History: s, Pruner: s, Logins: s, Minutes: s, KeepHistory: 30 * 24 * time.Hour,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	pause, err := e.pruneOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, prunePause, pause)
	pause, err = e.finishOnce(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, pause, 30*time.Second, "jobs end and leave within a minute")
	require.Equal(t, &expired{days: HistoryAhead, keep: 30, followed: 1}, s)
	require.Contains(t, log.String(), "time zone rules have changed")
	require.Contains(t, log.String(), "table=run_history_20260101")
	require.NotContains(t, log.String(), "prune failed")
}

// A step that fails is logged with its name, is not repeated in the same round, and does not stop the others.
func TestPruneGoesOnAfterAFailedStep(t *testing.T) {
	t.Parallel()
	s := &expired{oneOffs: 1, skips: 1, broken: errors.New("permission denied")}
	var log bytes.Buffer
	e := New(Options{
		Member: ownsAll{}, History: s, Pruner: s, Logins: s, Minutes: s, KeepHistory: 30 * 24 * time.Hour,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	_, err := e.finishOnce(t.Context())
	require.NoError(t, err)
	_, err = e.pruneOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.oneOffs)
	require.Zero(t, s.skips)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("prune failed")))
	require.Contains(t, log.String(), `step="remove finished one-off jobs" error="permission denied"`)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Reset()
	_, err = e.finishOnce(ctx)
	require.NoError(t, err)
	_, err = e.pruneOnce(ctx)
	require.NoError(t, err)
	require.NotContains(t, log.String(), "prune failed", "an interrupted round is no failure")
}
