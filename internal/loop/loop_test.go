package loop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/loop"
)

var errBroken = errors.New("broken on purpose")

// script is the rounds of a loop: what each of them returns. It records when each began.
type script struct {
	rounds []round
	begun  []time.Duration
	start  time.Time
	out    bytes.Buffer
	failed []string
}

type round struct {
	pause time.Duration
	err   error
}

func (s *script) once(context.Context) (time.Duration, error) {
	s.begun = append(s.begun, time.Since(s.start)) //nolint:forbidigo // the virtual clock of synctest
	r := s.rounds[0]
	s.rounds = s.rounds[1:]
	return r.pause, r.err
}

func (s *script) loop() loop.Loop {
	s.start = time.Now() //nolint:forbidigo // the virtual clock of synctest
	return loop.Loop{
		Name: "test", Once: s.once, Log: slog.New(slog.NewJSONHandler(&s.out, nil)),
		OnFailure: func(name string) { s.failed = append(s.failed, name) },
	}
}

type line struct {
	Level, Msg, Loop, Error string
	Failures, Runs          int
	RetryIn                 time.Duration `json:"retry_in"`
}

func (s *script) lines(t *testing.T) (out []line) {
	t.Helper()
	for text := range strings.Lines(s.out.String()) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		out = append(out, l)
	}
	return out
}

const ms = time.Millisecond

func TestARoundChoosesThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{rounds: []round{{time.Second, nil}, {0, nil}, {3 * time.Second, nil}, {0, loop.ErrDone}}}
		s.loop().Run(t.Context())
		require.Equal(t, []time.Duration{0, time.Second, time.Second, 4 * time.Second}, s.begun)
		require.Empty(t, s.lines(t))
		require.Empty(t, s.failed)
	})
}

func TestFailuresBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		for range 6 {
			s.rounds = append(s.rounds, round{time.Hour, errBroken})
		}
		s.rounds = append(s.rounds, round{0, nil}, round{0, errBroken}, round{0, loop.ErrDone})
		s.loop().Run(t.Context())
		require.Equal(t, []time.Duration{
			0, 200 * ms, 600 * ms, 1400 * ms, 3000 * ms, 5000 * ms, 7000 * ms, 7000 * ms, 7200 * ms,
		}, s.begun, "200ms, doubling to 2s, and from the start after a success")
		require.Len(t, s.failed, 7)
		require.Equal(t, "test", s.failed[0])
		text := errBroken.Error()
		require.Equal(t, []line{
			{Level: "WARN", Msg: "loop failed", Loop: "test", Error: text, Failures: 1, RetryIn: 200 * ms},
			{Level: "WARN", Msg: "loop failed", Loop: "test", Error: text, Failures: 2, RetryIn: 400 * ms},
			{Level: "WARN", Msg: "loop failed", Loop: "test", Error: text, Failures: 4, RetryIn: 1600 * ms},
			{Level: "INFO", Msg: "loop recovered", Loop: "test", Failures: 6},
			{Level: "WARN", Msg: "loop failed", Loop: "test", Error: text, Failures: 1, RetryIn: 200 * ms},
			{Level: "INFO", Msg: "loop recovered", Loop: "test", Failures: 1},
		}, s.lines(t))
	})
}

// TestANegativePauseIsNone: it is not logged either.
func TestANegativePauseIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{rounds: []round{{-time.Second, errBroken}, {0, loop.ErrDone}}}
		l := s.loop()
		l.Backoff.Off = true
		l.Run(t.Context())
		require.Equal(t, []time.Duration{0, 0}, s.begun)
		require.Zero(t, s.lines(t)[0].RetryIn)
	})
}

func TestBackoffIsConfigured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		backoff loop.Backoff
		want    []time.Duration
	}{
		"min and max": {loop.Backoff{Min: 100 * ms, Max: 150 * ms}, []time.Duration{0, 100 * ms, 250 * ms, 400 * ms}},
		"constant":    {loop.Backoff{Min: 200 * ms, Max: 200 * ms}, []time.Duration{0, 200 * ms, 400 * ms, 600 * ms}},
		"off":         {loop.Backoff{Off: true}, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				failed := round{time.Second, errBroken}
				s := &script{rounds: []round{failed, failed, failed, {0, loop.ErrDone}}}
				l := s.loop()
				l.Backoff = tc.backoff
				l.Run(t.Context())
				require.Equal(t, tc.want, s.begun)
			})
		})
	}
}

// A round that could not have failed says nothing about whether the failure is over.
func TestReadyDecidesAboutRecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{rounds: []round{{0, errBroken}, {time.Second, nil}, {0, errBroken}, {0, loop.ErrDone}}}
		l := s.loop()
		l.Title, l.Attrs = "session renewal", []any{"runs", 7}
		l.Ready = func() bool { return len(s.begun) == 4 }
		l.Run(t.Context())
		require.Equal(t, []time.Duration{0, 200 * ms, 1200 * ms, 1600 * ms}, s.begun, "the backoff keeps growing")
		lines := s.lines(t)
		require.Len(t, lines, 3)
		require.Equal(t, "session renewal failed", lines[1].Msg)
		require.Equal(t,
			line{Level: "INFO", Msg: "session renewal recovered", Loop: "test", Failures: 2, Runs: 7}, lines[2])
	})
}

func TestWakeEndsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		s := &script{rounds: []round{{time.Hour, nil}, {0, errBroken}, {0, loop.ErrDone}}}
		l := s.loop()
		l.Wake = wake
		go func() {
			for range 2 {
				time.Sleep(50 * ms) //nolint:forbidigo // the virtual clock of synctest
				wake <- struct{}{}
			}
		}()
		l.Run(t.Context())
		require.Equal(t, []time.Duration{0, 50 * ms, 100 * ms}, s.begun)
	})
}

func TestBackoffCanOutlastWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		s := &script{rounds: []round{{0, errBroken}, {time.Hour, nil}, {0, loop.ErrDone}}}
		l := s.loop()
		l.Wake, l.Backoff.Wait = wake, true
		l.Run(t.Context())
		require.Equal(t, []time.Duration{0, 200 * ms, 200 * ms}, s.begun, "the signal is kept for the next pause")
	})
}

func TestARoundHasALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failures atomic.Int32
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		loop.Loop{
			Name: "hangs", Limit: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
			Once:      func(ctx context.Context) (time.Duration, error) { <-ctx.Done(); return 0, ctx.Err() },
			OnFailure: func(string) { failures.Add(1) },
		}.Run(ctx)
		require.EqualValues(t, 5, failures.Load(), "the sixth round is ended by the context, which is no failure")
	})
}

func TestTheContextEndsALoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*ms)
		defer cancel()
		s := &script{rounds: []round{{time.Second, nil}, {time.Second, nil}}}
		s.loop().Run(ctx)
		require.Equal(t, []time.Duration{0, time.Second}, s.begun)
		require.Equal(t, 1500*ms, time.Since(s.start)) //nolint:forbidigo // the virtual clock of synctest
		s.loop().Run(ctx)
		s.loop().RunAfter(ctx, errBroken)
		require.Len(t, s.begun, 2, "no round begins after the end")
		require.Empty(t, s.lines(t))
	})
}

func TestRunAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{rounds: []round{{0, errBroken}, {0, loop.ErrDone}}}
		s.loop().RunAfter(t.Context(), errors.New("first"))
		require.Equal(t, []time.Duration{200 * ms, 600 * ms}, s.begun)
		lines := s.lines(t)
		require.Len(t, lines, 3)
		require.Equal(t, "first", lines[0].Error)
		require.Equal(t, 2, lines[2].Failures)
		require.Equal(t, []string{"test", "test"}, s.failed)
	})
}

func TestAGroupRunsAllLoops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var one, three atomic.Int32
		count := func(n *atomic.Int32) func(context.Context) (time.Duration, error) {
			return func(context.Context) (time.Duration, error) { n.Add(1); return time.Second, nil }
		}
		log := slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*ms)
		defer cancel()
		loop.Group{
			{Name: "one", Once: count(&one), Log: log},
			{Name: "three", Once: count(&three), Count: 3, Log: log},
		}.Run(ctx)
		require.EqualValues(t, 2, one.Load())
		require.EqualValues(t, 6, three.Load())
	})
}
