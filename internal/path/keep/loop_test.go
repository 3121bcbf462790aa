package keep

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// removes is a step that removes rows, of which there are n.
func removes(name string, n *int) step {
	return step{name, func(_ context.Context, limit int) (int, error) {
		taken := min(*n, limit)
		*n -= taken
		return taken, nil
	}}
}

func withLog() (*Keeper, *bytes.Buffer) {
	var log bytes.Buffer
	return NewKeeper(Options{Store: &Store{}, Log: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

func TestRoundsHaveAllSteps(t *testing.T) {
	t.Parallel()
	k, _ := withLog()
	var names []string
	for _, s := range slices.Concat(k.finish, k.prune) {
		names = append(names, s.name)
	}
	require.Equal(t, []string{
		"follow time zone rules", "finish jobs that have ended", "remove finished one-off jobs",
		"create days of history", "drop old history", "drop output of ended attempts", "drop expired idempotent responses",
		"drop expired login sessions", "drop old statistics", "drop old skips", "drop old operations",
	}, names)
}

func TestEachStepIsTakenInBatchesUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	few, one, more := 7, batchSize, 3*batchSize+1
	k, log := withLog()
	k.finish, k.prune = []step{removes("few", &few)}, []step{removes("one batch", &one), removes("more", &more)}
	for _, l := range k.Loops() {
		pause, err := l.Once(t.Context())
		require.NoError(t, err)
		require.Positive(t, pause)
	}
	require.Equal(t, []int{0, 0, 0}, []int{few, one, more})
	require.Empty(t, log.String())
}

// A step that fails is logged with its name, is not repeated in the same round, and does not stop the others.
func TestOthersGoOnAfterAFailedStep(t *testing.T) {
	t.Parallel()
	left := 1
	k, log := withLog()
	k.prune = []step{
		{"remove finished one-off jobs", func(context.Context, int) (int, error) { return 0, errors.New("permission denied") }},
		removes("others", &left),
	}
	_, err := k.pruneOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("prune failed")))
	require.Contains(t, log.String(), `step="remove finished one-off jobs" error="permission denied"`)

	ctx, cancel := context.WithCancel(t.Context())
	log.Reset()
	k.prune[0].batch = func(context.Context, int) (int, error) {
		cancel()
		return 0, context.Canceled
	}
	_, err = k.pruneOnce(ctx)
	require.NoError(t, err)
	require.Empty(t, log.String(), "an interrupted round is no failure")
}
