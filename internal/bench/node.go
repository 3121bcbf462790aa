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

// flushPause is how often a node tells its parent of starts.
const flushPause = 100 * time.Millisecond

// Pipes of a child.
type Pipes struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Node is the child that runs a node: samples go to its output, and it serves
// until its input ends.
func Node(ctx context.Context, c app.Config, profile string, p Pipes) (err error) {
	ctx, cancel := untilEOF(ctx, p.Stdin)
	defer cancel()
	stopProfile, err := startProfile(profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()

	r := &recorder{}
	c.Started = r.started
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
				return fmt.Errorf("tell the parent: %w", err)
			}
		}
	}
}

// startProfile profiles the CPU into a file, if one is named.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path) //nolint:gosec // the user named it
	if err != nil {
		return nil, fmt.Errorf("make the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
