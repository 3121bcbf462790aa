// Command worker greets: start it, create a job whose target is
// {"kind": "worker", "config": {"handler": "greet"}} with queue "greetings", and
// trigger it.
//
//	BELFRY_SERVER=http://localhost:8420 BELFRY_KEY=bfk_… go run ./examples/worker
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	belfry "github.com/belfry-dev/belfry/sdk/go"
	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// Greeting is the payload.
type Greeting struct {
	To string `json:"to"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the worker ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var opts []belfry.Option
	if os.Getenv("BELFRY_INSECURE") == "true" { // a private network protects the connection
		opts = append(opts, belfry.Insecure())
	}
	client, err := belfry.New(os.Getenv("BELFRY_SERVER"), os.Getenv("BELFRY_KEY"), opts...)
	if err != nil {
		return err
	}
	w := worker.New(client, "greetings", worker.Slots(5))
	w.Use(logged)
	worker.Handle(w, "greet", greet)
	return w.Run(ctx) // until a signal, and then until running handlers have ended
}

func greet(ctx context.Context, run *worker.Run, in Greeting) error {
	if in.To == "" {
		return worker.Permanent(errors.New("whom?")) // a retry would fail too
	}
	run.Progress(50, "thinking of words")
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx) // cancelled, too slow, or no longer this worker's
	}
	return run.Result(map[string]string{"said": "hello " + in.To})
}

// logged is a middleware.
func logged(next worker.Handler) worker.Handler {
	return func(ctx context.Context, run *worker.Run) error {
		err := next(ctx, run)
		slog.InfoContext(ctx, "run", "id", run.ID, "attempt", run.Attempt, "error", err)
		return err
	}
}
