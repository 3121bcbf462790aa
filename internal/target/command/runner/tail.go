package runner

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MaxTail is how much of what a command wrote last is kept.
	MaxTail = 16 << 10
	// tailPause is how often it is told while the command runs.
	tailPause = 250 * time.Millisecond
	// A command that writes without end is slowed down to this, so that reading it
	// is no work to speak of.
	readRate = 16 << 20 // bytes per second
	readSize = 32 << 10
)

// tail keeps the end of what a command writes until it is told.
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

// tell hands out what came since the last time, if anything did.
func (t *tail) tell(output func(part []byte, skipped int64)) {
	t.mu.Lock()
	part, skipped := t.part, t.skipped
	t.part, t.skipped = nil, 0
	t.mu.Unlock()
	if len(part) > 0 {
		output(part, skipped)
	}
}

// follow reads what a command writes to its end, and tells it now and then, and
// all of it before it returns.
func follow(ctx context.Context, from io.Reader, output func(part []byte, skipped int64)) {
	var t tail
	var telling sync.WaitGroup
	done := make(chan struct{})
	telling.Go(func() {
		tick := time.NewTicker(tailPause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.tell(output)
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
		if err != nil { // its end, or the deadline that was set when the command was gone
			break
		}
		_ = limit.WaitN(ctx, n) // when the command is killed there is little left to read
	}
	close(done)
	telling.Wait()
	t.tell(output)
}
