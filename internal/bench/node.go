package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"
	"time"

	"github.com/belfry-dev/belfry/internal/app"
)

// flushPause is how often a node reports its starts to the parent.
const flushPause = 100 * time.Millisecond

// Pipes are the standard streams of a child.
type Pipes struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Node runs a node in a child process. It writes samples to its output, and serves until its input ends.
func Node(ctx context.Context, c app.Config, profile string, p Pipes) (err error) {
	ctx, cancel := untilEOF(ctx, p.Stdin)
	defer cancel()
	stopProfile, err := startProfile(profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()

	r := &recorder{}
	c.Started, c.Canary = r.started, false
	served := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() { served <- app.Serve(ctx, c, log) }()
	tick := time.NewTicker(flushPause)
	defer tick.Stop()
	for {
		select {
		case err := <-served:
			return errors.Join(err, r.flush(p.Stdout))
		case <-tick.C:
			if err := r.flush(p.Stdout); err != nil {
				return fmt.Errorf("report to the parent: %w", err)
			}
		}
	}
}

// startProfile writes a CPU profile to a file, if one is named.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path) //nolint:gosec // the user named it
	if err != nil {
		return nil, fmt.Errorf("create the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
