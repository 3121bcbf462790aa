package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// server is the main loop of the runner.
type server struct {
	settings Settings
	sandbox  isolation
	images   isolation // nil: containers are off

	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	stop    map[uint64]context.CancelCauseFunc
	running sync.WaitGroup
}

const (
	// nobody is the user of a command, as the command sees it.
	nobody = "65534"
	// maxFiles is how many files a process may have open.
	maxFiles = 256
)

// isolation is a way to run commands: a sandbox or containers.
type isolation interface {
	// check reports why commands cannot be run here, for an operator to read.
	check(ctx context.Context) error
	// run runs one command. It passes on output while the command runs.
	run(ctx context.Context, s *Spec, output outputFunc) Result
}

// outputFunc receives output of a command. skipped is the number of bytes before part that were dropped.
type outputFunc func(part []byte, skipped int64)

var errStopped = errors.New("stopped")

// Serve handles requests until they end, which they do when the node ends. It then kills all commands. The process ignores
// the signals that ask it to stop, because the node decides when it ends.
func Serve(ctx context.Context, requests io.Reader, reports io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(ctx)
	s := &server{out: reports, stop: map[uint64]context.CancelCauseFunc{}}
	defer s.running.Wait()
	defer cancel(errStopped)
	in := bufio.NewReader(requests)
	for {
		var r Request
		err := Read(in, &r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		s.handle(ctx, &r)
	}
}

func (s *server) handle(ctx context.Context, r *Request) {
	switch {
	case r.Settings != nil:
		s.configure(ctx, r)
	case r.Stop:
		s.mu.Lock()
		defer s.mu.Unlock()
		if stop := s.stop[r.ID]; stop != nil {
			stop(errStopped)
		}
	case r.Start != nil:
		ctx, stop := context.WithCancelCause(ctx)
		s.mu.Lock()
		s.stop[r.ID] = stop
		s.mu.Unlock()
		s.running.Go(func() {
			result := s.run(ctx, r)
			s.mu.Lock()
			delete(s.stop, r.ID)
			s.mu.Unlock()
			stop(nil)
			s.report(&Report{ID: r.ID, Result: &result})
		})
	}
}

func (s *server) configure(ctx context.Context, r *Request) {
	s.settings = *r.Settings
	result := Result{End: Exited}
	if err := s.prepare(ctx); err != nil {
		result = Result{End: NotStarted, Detail: err.Error()}
	}
	s.report(&Report{ID: r.ID, Result: &result})
}

// prepare sets up what the settings allow, and tries it.
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

func (s *server) run(ctx context.Context, r *Request) Result {
	if err := s.settings.allow(r.Start); err != nil {
		return Result{End: Refused, Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, r.Start.Timeout)
	defer cancel()
	by := s.sandbox
	if r.Start.Image != "" {
		by = s.images
	}
	return by.run(ctx, r.Start, func(part []byte, skipped int64) {
		s.report(&Report{ID: r.ID, Output: part, Skipped: skipped})
	})
}

// report sends a report. If it fails, the node is gone, and Serve notices that too.
func (s *server) report(r *Report) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = Write(s.out, r)
}
