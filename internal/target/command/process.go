package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/message"
)

const (
	checkTime   = 30 * time.Second // for the runner to start and try its sandbox
	firstPause  = 100 * time.Millisecond
	maxPause    = 10 * time.Second
	killTime    = 30 * time.Second // for a killed command to end; the runner has a low priority on a busy machine
	stopTime    = 10 * time.Second // for the runner to end
	settingsID  = 0
	maxErrorLog = 4 << 10
)

// process keeps one runner alive: it starts another when the runner dies.
type process struct {
	opts Options

	mu     sync.Mutex
	child  *child        // nil: no runner at the moment
	ready  chan struct{} // closed when there is a child; replaced when it dies
	lastID uint64        // of a request

	stop context.CancelFunc
	done chan struct{}
}

// child is one runner.
type child struct {
	cmd      *exec.Cmd
	requests io.WriteCloser

	writing   sync.Mutex
	mu        sync.Mutex
	calls     map[uint64]*call // nil: it is dead
	completed int              // commands it ran to their end
	dead      chan struct{}
}

// call is a running command.
type call struct {
	output *output
	result chan runner.Result // has a buffer of one
}

// start starts the first runner. The error says why commands cannot be run here. keep starts later ones.
func (p *process) start(ctx context.Context) error {
	p.ready, p.done = make(chan struct{}), make(chan struct{})
	c, err := p.spawn(ctx)
	if err != nil {
		return err
	}
	p.set(c)
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go p.keep(ctx, c)
	return nil
}

// keep starts another runner when one dies, with a longer pause each time.
func (p *process) keep(ctx context.Context, c *child) {
	defer close(p.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	pause := firstPause
	for {
		if c != nil {
			select {
			case <-c.dead:
			case <-ctx.Done():
				c.close()
				return
			}
			p.set(nil)
			if c.worked() {
				pause = firstPause
			}
			p.opts.Log.Error("command runner died", "next_in", pause)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxPause)
		next, err := p.spawn(ctx)
		if err != nil {
			p.opts.Log.Error("command runner start failed", "error", err, "again_in", pause)
			c = nil
			continue
		}
		c = next
		p.set(c)
	}
}

func (p *process) set(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.child = c
	if c != nil {
		close(p.ready)
		return
	}
	p.ready = make(chan struct{})
}

// spawn starts a runner and waits until it has tried its sandbox.
func (p *process) spawn(ctx context.Context) (*child, error) {
	//nolint:gosec,noctx // it is this program itself, and ends when its stdin is closed
	cmd := exec.Command(p.opts.Executable[0], p.opts.Executable[1:]...)
	// Nothing of the node's environment.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = isolate(p.opts.User)
	requests, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	reports, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &logWriter{log: p.opts.Log}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the command runner: %w", err)
	}
	c := &child{cmd: cmd, requests: requests, calls: map[uint64]*call{}, dead: make(chan struct{})}
	go c.read(reports)
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	got := c.do(ctx, &runner.Request{ID: settingsID, Settings: &p.opts.Settings}, nil)
	if got.End != runner.Exited {
		c.close()
		return nil, fmt.Errorf("commands cannot be run here: %s", got.Detail)
	}
	return c, nil
}

// run runs a command. If there is no runner, it waits for one until ctx ends.
func (p *process) run(ctx context.Context, s *runner.Spec, o *output) runner.Result {
	for {
		p.mu.Lock()
		c, ready := p.child, p.ready
		p.lastID++
		id := p.lastID
		p.mu.Unlock()
		if c != nil {
			return c.do(ctx, &runner.Request{ID: id, Start: s}, o)
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return runner.Result{End: runner.NotStarted, Detail: "there is no command runner now; see the node's log"}
		}
	}
}

// do sends a request and waits for its result. When ctx ends, it has the command killed and waits until it
// has ended, at most killTime.
func (c *child) do(ctx context.Context, r *runner.Request, out *output) runner.Result {
	one := &call{output: out, result: make(chan runner.Result, 1)}
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return died
	}
	c.calls[r.ID] = one
	c.mu.Unlock()
	defer c.forget(r.ID)
	c.send(r)
	select {
	case result := <-one.result:
		return result
	case <-ctx.Done():
	}
	c.send(&runner.Request{ID: r.ID, Stop: true})
	limit := time.NewTimer(killTime)
	defer limit.Stop()
	select {
	case result := <-one.result:
		return result
	case <-limit.C:
		return runner.Result{End: runner.Lost, Detail: "the command runner does not respond"}
	}
}

// died is the result of a command whose runner died.
var died = runner.Result{End: runner.Lost, Detail: "the command runner died; see the node's log"}

func (c *child) count(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != settingsID {
		c.completed++
	}
}

// worked reports whether the runner has completed a command.
func (c *child) worked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.completed > 0
}

func (c *child) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// send sends a request. If it fails, the runner is dead, and read notices that.
func (c *child) send(r *runner.Request) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = runner.Write(c.requests, r)
}

// read passes on reports until the runner is dead, and then fails all calls.
func (c *child) read(reports io.Reader) {
	in := bufio.NewReader(reports)
	for {
		var r runner.Report
		if runner.Read(in, &r) != nil {
			break
		}
		c.mu.Lock()
		one := c.calls[r.ID]
		c.mu.Unlock()
		switch {
		case one == nil:
		case r.Result != nil:
			one.result <- *r.Result
			c.count(r.ID)
		case one.output != nil:
			one.output.add(r.Output, r.Skipped)
		}
	}
	_ = c.cmd.Process.Kill() // if it is alive, it sent something invalid
	_ = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		select {
		case one.result <- died:
		default: // it has its result already
		}
	}
	c.calls = nil
	close(c.dead)
}

// close stops the runner, which kills its commands.
func (c *child) close() {
	c.writing.Lock()
	_ = c.requests.Close()
	c.writing.Unlock()
	limit := time.NewTimer(stopTime)
	defer limit.Stop()
	select {
	case <-c.dead:
	case <-limit.C:
		_ = c.cmd.Process.Kill()
		<-c.dead
	}
}

// close stops the runner and starts no other.
func (p *process) close() {
	if p.stop != nil {
		p.stop()
		<-p.done
	}
}

// logWriter logs the runner's stderr, which is normally empty: it shows why the runner died.
type logWriter struct{ log *slog.Logger }

func (w *logWriter) Write(p []byte) (int, error) {
	w.log.Error("command runner wrote to stderr", "text", message.Clean(string(p), maxErrorLog))
	return len(p), nil
}
