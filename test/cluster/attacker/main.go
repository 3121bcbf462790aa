// Command attacker is the clients and servers of a hostile namespace, for tests. It is a process of its own, so that a
// test can give it the lowest priority: a real attacker has a machine of its own, and uses no CPU time of the nodes
// except what the nodes spend for it.
//
// It reads an Order from its input, writes a Report to its output several times a second, and ends when its input ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

// Order says what to do.
type Order struct {
	Kind  string   // one of kinds
	Count int      // how many addresses to listen on, or how many connections or polls to keep
	First int      // the number of the first of them, if several processes share the work
	Net   int      // the second byte of the addresses to listen on
	Nodes []string // addresses of the nodes
	Keys  []string // API keys
}

// Report is what has happened so far.
type Report struct {
	Port    int   // that the servers listen on
	Held    int64 // connections, bodies or polls that have been open for a second
	Done    int64 // requests and messages that were received, or calls that were answered
	Refused int64 // connections that a node closed within a second, and calls that it refused
}

// attack counts what happens.
type attack struct {
	Order
	port                atomic.Int64
	held, done, refused atomic.Int64
}

var kinds = map[string]func(*attack, context.Context) error{
	"silent":   func(a *attack, ctx context.Context) error { return a.listen(ctx, a.silent) },
	"broker":   func(a *attack, ctx context.Context) error { return a.listen(ctx, a.broker) },
	"host":     func(a *attack, ctx context.Context) error { return a.listen(ctx, a.host) },
	"idle":     (*attack).idle,
	"bodies":   (*attack).bodies,
	"polls":    (*attack).polls,
	"requests": (*attack).requests,
}

func main() {
	if err := run(); err != nil {
		slog.Error("attacker ended", "error", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := &attack{}
	input := json.NewDecoder(os.Stdin)
	if err := input.Decode(&a.Order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	begin, ok := kinds[a.Kind]
	if !ok {
		return fmt.Errorf("unknown kind %q", a.Kind)
	}
	if err := begin(a, ctx); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	output, tick := json.NewEncoder(os.Stdout), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
			if err := output.Encode(a.report()); err != nil {
				return err
			}
		}
	}
}

func (a *attack) report() Report {
	return Report{Port: int(a.port.Load()), Held: a.held.Load(), Done: a.done.Load(), Refused: a.refused.Load()}
}

// hold counts something as held when it has lasted for a second. The caller calls end when it is over.
func (a *attack) hold() (end func()) {
	begun := clock.Elapsed()
	t := time.AfterFunc(time.Second, func() { a.held.Add(1) })
	return sync.OnceFunc(func() {
		switch {
		case !t.Stop():
			a.held.Add(-1)
		case clock.Elapsed()-begun < time.Second:
			a.refused.Add(1)
		}
	})
}

// repeat calls something again and again, Count times at the same time. It waits a second after each call, as answers
// to rejected requests ask for.
func (a *attack) repeat(ctx context.Context, once func(ctx context.Context, i int)) {
	for i := a.First; i < a.First+a.Count; i++ {
		go func() {
			for ctx.Err() == nil {
				once(ctx, i)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}()
	}
}
