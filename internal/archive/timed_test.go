package archive_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archive/storetest"
)

// silent accepts every call and never answers.
type silent struct{ body bool }

func (silent) wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s silent) Put(ctx context.Context, _ string, _ io.ReadSeeker, _ int64) error {
	return s.wait(ctx)
}

func (s silent) Get(ctx context.Context, _ string, _, _ int64) (io.ReadCloser, error) {
	if s.body {
		return silentBody{ctx, s}, nil
	}
	return nil, s.wait(ctx)
}

func (s silent) Size(ctx context.Context, _ string) (int64, error) { return 0, s.wait(ctx) }

func (s silent) List(ctx context.Context, _, _ string, _ int) ([]string, error) {
	return nil, s.wait(ctx)
}

func (s silent) Delete(ctx context.Context, _ string) error { return s.wait(ctx) }

type silentBody struct {
	ctx context.Context
	silent
}

func (b silentBody) Read([]byte) (int, error) { return 0, b.wait(b.ctx) }
func (silentBody) Close() error               { return nil }

// TestEveryCallOfAStoreEnds, also the reading of a body that was begun.
func TestEveryCallOfAStoreEnds(t *testing.T) {
	t.Parallel()
	limits := archive.Limits{Call: time.Millisecond, Slowest: 1 << 40}
	s := archive.Timed(silent{}, limits)
	calls := map[string]func() error{
		"put":    func() error { return s.Put(t.Context(), "a", strings.NewReader("b"), 1) },
		"get":    func() error { _, err := s.Get(t.Context(), "a", 0, 1); return err },
		"size":   func() error { _, err := s.Size(t.Context(), "a"); return err },
		"list":   func() error { _, err := s.List(t.Context(), "a", "", 1); return err },
		"delete": func() error { return s.Delete(t.Context(), "a") },
		"body": func() error {
			body, err := archive.Timed(silent{body: true}, limits).Get(t.Context(), "a", 0, 1)
			require.NoError(t, err)
			_, err = io.ReadAll(body)
			require.NoError(t, body.Close())
			return err
		},
	}
	for name, call := range calls {
		require.ErrorContains(t, call(), "the object store did not answer within 1ms", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := archive.Timed(silent{}, archive.DefaultLimits).Delete(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "did not answer", "the caller gave up")
}

// TestATimedStore is a store like any other.
func TestATimedStore(t *testing.T) {
	t.Parallel()
	d, err := disk.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	storetest.Run(t, archive.Timed(d, archive.DefaultLimits))
}
