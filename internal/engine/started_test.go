package engine_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// watcher records what it observes.
type watcher struct {
	mu   sync.Mutex
	late []time.Duration
	ends []job.OutcomeKind
	took []time.Duration
}

func (w *watcher) Started(_ int32, late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, late)
}

func (w *watcher) Ended(_ int32, o job.Outcome, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends, w.took = append(w.ends, o.Kind), append(w.took, took)
}

func (*watcher) Failed(string) {}

func (*watcher) Found(auditor.Kind) {}

// An attempt whose target is busy has not started. The lateness of one that has started is measured at
// its beginning.
func TestDeferredIsNotStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := &watcher{}
	b.engine.Observe = w
	var late time.Duration // when it was delivered
	b.target.answer = func(a job.Attempt) job.Outcome {
		if a.Number < 3 {
			return job.Outcome{Kind: job.Deferred, Message: "busy"}
		}
		late = b.bound.Now().Sub(a.RunAt)
		<-time.After(200 * time.Millisecond)
		return job.Outcome{Kind: job.Succeeded}
	}
	b.create(t, "once", schedule.Spec{At: "2026-03-29T01:30:00Z"}, nil)
	stop := b.start(t)
	b.eventually(t, "the success", `SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 3`, 1)
	stop()
	require.Equal(t, []job.OutcomeKind{job.Deferred, job.Deferred, job.Succeeded}, w.ends)
	require.Len(t, w.late, 1)
	require.LessOrEqual(t, w.late[0], late)
	require.GreaterOrEqual(t, w.took[2], 200*time.Millisecond)
}
