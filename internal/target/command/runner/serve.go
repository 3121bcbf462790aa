package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// server is the runner at work.
type server struct {
	settings Settings
	sandbox  box
	images   box // nil: none

	writing sync.Mutex
	out     io.Writer

	mu       sync.Mutex
	stop     map[uint64]context.CancelCauseFunc
	underWay sync.WaitGroup
}

const (
	// nobody is who a command is, in its own eyes.
	nobody = "65534"
	// maxFiles is how many files a process may have open.
	maxFiles = 256
)

// box runs one command at a time for each call, and tells what it writes.
type box interface {
	// check says why commands cannot be run here, in words for an operator.
	check(ctx context.Context) error
	run(ctx context.Context, s *Spec, output func(part []byte, skipped int64)) Result
}

var errStopped = errors.New("stopped")

// Serve works until the orders end, which they do when the node does. It then
// kills what is under way.
func Serve(ctx context.Context, orders io.Reader, reports io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &server{out: reports, stop: map[uint64]context.CancelCauseFunc{}}
	defer s.underWay.Wait()
	defer cancel(errStopped)
	in := bufio.NewReader(orders)
	for {
		var o Order
		err := Read(in, &o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		s.take(ctx, &o)
	}
}

func (s *server) take(ctx context.Context, o *Order) {
	switch {
	case o.Settings != nil:
		s.configure(ctx, o)
	case o.Stop:
		s.mu.Lock()
		defer s.mu.Unlock()
		if stop := s.stop[o.ID]; stop != nil {
			stop(errStopped)
		}
	case o.Start != nil:
		ctx, stop := context.WithCancelCause(ctx)
		s.mu.Lock()
		s.stop[o.ID] = stop
		s.mu.Unlock()
		s.underWay.Go(func() {
			result := s.run(ctx, o)
			s.mu.Lock()
			delete(s.stop, o.ID)
			s.mu.Unlock()
			stop(nil)
			s.report(&Report{ID: o.ID, Result: &result})
		})
	}
}

func (s *server) configure(ctx context.Context, o *Order) {
	s.settings = *o.Settings
	result := Result{End: Exited}
	if err := s.prepare(ctx); err != nil {
		result = Result{End: NotStarted, Detail: err.Error()}
	}
	s.report(&Report{ID: o.ID, Result: &result})
}

// prepare makes what the settings allow, and tries it.
func (s *server) prepare(ctx context.Context) error {
	if len(s.settings.Programs) > 0 {
		s.sandbox = newSandbox(&s.settings)
		if err := s.sandbox.check(ctx); err != nil {
			return err
		}
	}
	if s.settings.Socket == "" {
		return nil
	}
	images, err := newContainers(&s.settings)
	if err != nil {
		return err
	}
	s.images = images
	go images.sweep(ctx)
	return images.check(ctx)
}

func (s *server) run(ctx context.Context, o *Order) Result {
	if err := s.settings.allow(o.Start); err != nil {
		return Result{End: Refused, Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Start.Timeout)
	defer cancel()
	box := s.sandbox
	if o.Start.Image != "" {
		box = s.images
	}
	return box.run(ctx, o.Start, func(part []byte, skipped int64) {
		s.report(&Report{ID: o.ID, Output: part, Skipped: skipped})
	})
}

// report: an error means that the node is gone, which Serve sees too.
func (s *server) report(r *Report) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = Write(s.out, r)
}
