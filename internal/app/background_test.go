package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/loop"
)

// TestKeysAreReadAgainSoonAfterAFailure: while a node cannot read the keys of run tokens, it rejects tokens of a new one.
// The other loops keep their pace.
func TestKeysAreReadAgainSoonAfterAFailure(t *testing.T) {
	t.Parallel()
	n := &node{wakes: newWakes(), log: slog.New(slog.DiscardHandler)}
	n.wakes.node = n
	waits := map[string]time.Duration{}
	for _, l := range n.background() {
		synctest.Test(t, func(t *testing.T) {
			var failed time.Time
			l.Wake = nil
			l.Once = func(context.Context) (time.Duration, error) {
				now := time.Now() //nolint:forbidigo // the virtual clock of synctest
				if failed.IsZero() {
					failed = now
					return access.ReportKeyPause, errors.New("the database is down")
				}
				waits[l.Name] = now.Sub(failed)
				return 0, loop.ErrDone
			}
			l.Run(t.Context())
		})
	}
	require.Positive(t, waits["report_keys"])
	require.LessOrEqual(t, waits["report_keys"], 2*time.Second)
	require.Equal(t, access.ReportKeyPause, waits["stats"])
}
