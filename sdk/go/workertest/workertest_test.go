package workertest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfry-dev/belfry/sdk/go/worker"
	"github.com/belfry-dev/belfry/sdk/go/workertest"
)

func slow(ctx context.Context, run *worker.Run) error {
	run.Progress(10, "begun")
	select {
	case <-time.After(30 * time.Minute):
		return run.Result("done")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := workertest.Do(t.Context(), slow, workertest.Want{Timeout: time.Hour})
		if got.Kind != "succeeded" || got.Took != 30*time.Minute || string(got.Value) != `"done"` ||
			got.Progress != "begun" {
			t.Errorf("%+v", got)
		}
		got = workertest.Do(t.Context(), slow, workertest.Want{Timeout: time.Minute})
		if got.Kind != "failed" || got.Took != time.Minute || !errors.Is(got.Err, worker.ErrTimeout) {
			t.Errorf("%+v", got)
		}
		got = workertest.Do(t.Context(), slow, workertest.Want{Timeout: time.Hour, CancelAfter: time.Second})
		if got.Kind != "cancelled" || !errors.Is(got.Err, worker.ErrCancelled) {
			t.Errorf("%+v", got)
		}
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	typed := worker.Typed(func(_ context.Context, run *worker.Run, in struct{ N int }) error {
		switch in.N {
		case 1:
			return worker.Snooze(time.Hour)
		case 2:
			return worker.RetryAfter(time.Minute, errors.New("busy"))
		case 3:
			return worker.Cancel("moot")
		case 4:
			panic("oh no") //nolint:forbidigo // what is tested
		}
		return nil
	})
	for payload, want := range map[string]worker.Outcome{
		`{"n":1}`: {Kind: "snoozed", RetryAfter: time.Hour},
		`{"n":2}`: {Kind: "failed", RetryAfter: time.Minute, Message: "busy"},
		`{"n":3}`: {Kind: "cancelled", Message: "moot"}, `{"n":4}`: {Kind: "failed", Message: "oh no"},
		`{"n":5}`: {Kind: "succeeded"}, `7`: {Kind: "failed", Final: true},
	} {
		got := workertest.Do(t.Context(), typed, workertest.Want{Payload: []byte(payload)})
		if got.Kind != want.Kind || got.Final != want.Final || got.RetryAfter != want.RetryAfter ||
			!strings.Contains(got.Message, want.Message) {
			t.Errorf("%s: %+v", payload, got.Outcome)
		}
	}
}
