// Command crasher is a worker for tests. It reports each run to the sink, and kills itself at a given step, as if the
// machine had lost power.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	belfry "github.com/belfry-dev/belfry/sdk/go"
	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// step is where this process dies, empty for nowhere.
var step = os.Getenv("CRASH_AT")

func main() {
	if err := run(); err != nil {
		slog.Error("worker ended", "error", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	slots, err := strconv.Atoi(os.Getenv("SLOTS"))
	if err != nil {
		return err
	}
	client, err := belfry.New(os.Getenv("BELFRY_SERVER"), os.Getenv("BELFRY_KEY"),
		belfry.HTTPClient(&http.Client{Transport: &transport{http.DefaultTransport}}))
	if err != nil {
		return err
	}
	w := worker.New(client, "work", worker.Slots(slots), worker.Name("crasher"), worker.Drain(5*time.Second))
	w.Handle("work", work)
	if os.Getenv("NOOP") != "" {
		w.Handle("work", func(ctx context.Context, _ *worker.Run) error {
			linger(ctx)
			return nil
		})
	}
	return w.Run(ctx)
}

func crash(at string) {
	if step == at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

func work(ctx context.Context, run *worker.Run) error {
	crash("claimed")
	pause(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	crash("running")
	if err := effect(run); err != nil { //nolint:contextcheck // it continues when its lease is lost
		return err
	}
	crash("effect")
	linger(context.WithoutCancel(ctx)) // it ignores that its lease is lost
	return nil
}

// linger takes as long as the test says.
func linger(ctx context.Context) {
	if d, err := time.ParseDuration(os.Getenv("LINGER")); err == nil {
		pause(ctx, d)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// effect is what the outside world sees of a run.
func effect(run *worker.Run) error {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, os.Getenv("SINK"), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", run.Key)
	r.Header.Set("Belfry-Job-Id", run.Job)
	r.Header.Set("Belfry-Attempt", strconv.Itoa(run.Attempt))
	r.Header.Set("Belfry-Due-At", run.DueAt.Format(time.RFC3339Nano))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the sink answered %s", answer.Status)
	}
	return nil
}

// transport dies after the server has handled a request and before the worker gets the reply.
type transport struct{ http.RoundTripper }

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/sessions"):
		crash("opened")
	case strings.HasSuffix(r.URL.Path, ":heartbeat"):
		crash("beat")
	case strings.HasSuffix(r.URL.Path, ":complete"):
		crash("completed")
	case strings.HasSuffix(r.URL.Path, ":claim") && step == "answered":
		body, _ := io.ReadAll(answer.Body)
		if strings.Contains(string(body), `"attempt":`) {
			crash("answered")
		}
		answer.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	return answer, err
}
