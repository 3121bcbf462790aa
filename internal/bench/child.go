package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stopTimeout is how long a child may take to stop.
const stopTimeout = 20 * time.Second

// child is a process of the same binary. It ends when its standard input does.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	errors tail
	asked  atomic.Bool   // the parent has asked it to stop
	ended  chan struct{} // closed when it has ended
	err    error         // why; set before ended is closed
}

// spawn starts `belfry bench …`; read gets what it prints. If it ends before it is asked to stop, spawn calls fail.
func spawn(
	ctx context.Context, url string, args []string, read func(io.Reader) error, fail func(error),
) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the path of this binary: %w", err)
	}
	c := &child{name: args[0], ended: make(chan struct{})}
	// The context does not end children: they are stopped in order, also after an interrupt.
	ctx = context.WithoutCancel(ctx)
	c.cmd = exec.CommandContext(ctx, self, append([]string{"bench"}, args...)...) //nolint:gosec // this binary
	// The parent has read the settings. The URL is not an argument, because it may contain a password.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BELFRY_") })
	// The benchmark has checked the URL.
	c.cmd.Env = append(c.cmd.Env, "BELFRY_DATABASE_URL="+url, "BELFRY_INSECURE_DATABASE=true")
	c.cmd.Stderr = &c.errors
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", c.name, err)
	}
	go func() {
		c.err = errors.Join(read(bufio.NewReader(stdout)), c.cmd.Wait())
		close(c.ended)
		if !c.asked.Load() {
			fail(fmt.Errorf("the %s ended unexpectedly: %w\n%s", c.name, cmp.Or(c.err, errNoReason), c.errors.String()))
		}
	}()
	return c, nil
}

var errNoReason = errors.New("it gave no reason")

// kill ends the child immediately.
func (c *child) kill() {
	c.asked.Store(true)
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// stop asks the child to stop, and waits.
func (c *child) stop() error {
	c.asked.Store(true)
	_ = c.stdin.Close() // it may have ended
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.kill()
	}
	if c.err != nil {
		return fmt.Errorf("the %s failed while stopping: %w\n%s", c.name, c.err, c.errors.String())
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailBytes; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// untilEOF returns a context for a child that ends when the parent closes the pipe or dies.
func untilEOF(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return ctx, cancel
}
