package runner

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MaxTail is how much of the last output of a command is kept.
	MaxTail = 16 << 10
	// reportInterval is how often output is reported while the command runs.
	reportInterval = 250 * time.Millisecond
	// readRate limits how fast output is read, in bytes per second. It slows down a command that writes
	// without end, so that reading costs little.
	readRate = 16 << 20
	readSize = 32 << 10
)

// tail keeps the last output of a command until it is reported.
type tail struct {
	mu      sync.Mutex
	part    []byte
	skipped int64
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part = append(t.part, p...)
	if over := len(t.part) - MaxTail; over > 0 {
		t.skipped += int64(over)
		t.part = append(t.part[:0], t.part[over:]...)
	}
}

// report passes on the output since the last call, if there is any.
func (t *tail) report(output outputFunc) {
	t.mu.Lock()
	part, skipped := t.part, t.skipped
	t.part, t.skipped = nil, 0
	t.mu.Unlock()
	if len(part) > 0 {
		output(part, skipped)
	}
}

// follow reads the output of a command to its end. It reports every reportInterval, and the rest before it
// returns.
func follow(ctx context.Context, from io.Reader, output outputFunc) {
	var t tail
	var reporting sync.WaitGroup
	done := make(chan struct{})
	reporting.Go(func() {
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.report(output)
			case <-done:
				return
			}
		}
	})
	limit := rate.NewLimiter(readRate, readSize)
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		t.add(buf[:n])
		if err != nil { // the end, or the command was killed
			break
		}
		_ = limit.WaitN(ctx, n) // once the command is killed, little is left to read
	}
	close(done)
	reporting.Wait()
	t.report(output)
}
