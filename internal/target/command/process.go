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
)

const (
	checkTime   = 30 * time.Second // for the runner to start and try its sandbox
	firstPause  = 100 * time.Millisecond
	longPause   = 10 * time.Second
	stopTime    = 10 * time.Second // for a command that is killed to be gone
	settingsID  = 0
	maxErrorLog = 4 << 10
)

// process is the runner, kept alive: one at a time, started anew when it dies.
type process struct {
	opts Options

	mu    sync.Mutex
	child *child        // nil: there is none now
	ready chan struct{} // closed when there is a child; made anew when it dies
	last  uint64        // order

	stop context.CancelFunc
	done chan struct{}
}

// child is one runner.
type child struct {
	cmd    *exec.Cmd
	orders io.WriteCloser

	writing sync.Mutex
	mu      sync.Mutex
	calls   map[uint64]*call // nil: it is dead
	ended   int              // commands it ran to their end
	dead    chan struct{}
}

// call is a command under way.
type call struct {
	output *output
	result chan runner.Result // holds one
}

// start starts the first runner and says why commands cannot be run here. Later
// ones are started when one dies.
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

// keep waits for the runner to die, and starts the next one, later each time.
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
			p.opts.Log.Error("the runner of commands died", "next_in", pause)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longPause)
		next, err := p.spawn(ctx)
		if err != nil {
			p.opts.Log.Error("the runner of commands does not start", "error", err, "again_in", pause)
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
	cmd := exec.Command(p.opts.Executable[0], p.opts.Executable[1:]...)                     //nolint:gosec,noctx // it is this program itself; it ends when its stdin does
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} // and nothing of the node's
	cmd.Dir = "/"
	cmd.SysProcAttr = apart(p.opts.User)
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	reports, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &logWriter{log: p.opts.Log}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the runner of commands: %w", err)
	}
	c := &child{cmd: cmd, orders: orders, calls: map[uint64]*call{}, dead: make(chan struct{})}
	go c.read(reports)
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	got := c.do(ctx, &runner.Order{ID: settingsID, Settings: &p.opts.Settings}, nil)
	if got.End != runner.Exited {
		c.close()
		return nil, fmt.Errorf("commands cannot be run here: %s", got.Detail)
	}
	return c, nil
}

// run runs a command. It waits for a runner as long as ctx allows.
func (p *process) run(ctx context.Context, s *runner.Spec, o *output) runner.Result {
	for {
		p.mu.Lock()
		c, ready := p.child, p.ready
		p.last++
		id := p.last
		p.mu.Unlock()
		if c != nil {
			return c.do(ctx, &runner.Order{ID: id, Start: s}, o)
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return runner.Result{End: runner.NotStarted, Detail: "there is no runner of commands now; see the node's log"}
		}
	}
}

// do sends an order and waits for its result. When ctx ends it has the command
// killed, and waits until that is done, but not for ever.
func (c *child) do(ctx context.Context, o *runner.Order, out *output) runner.Result {
	one := &call{output: out, result: make(chan runner.Result, 1)}
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return died
	}
	c.calls[o.ID] = one
	c.mu.Unlock()
	defer c.forget(o.ID)
	c.send(o)
	select {
	case r := <-one.result:
		return r
	case <-ctx.Done():
	}
	c.send(&runner.Order{ID: o.ID, Stop: true})
	limit := time.NewTimer(stopTime)
	defer limit.Stop()
	select {
	case r := <-one.result:
		return r
	case <-limit.C:
		return runner.Result{End: runner.Lost, Detail: "the runner of commands does not answer"}
	}
}

// died is the result of a command whose runner died.
var died = runner.Result{End: runner.Lost, Detail: "the runner of commands died; see the node's log"}

func (c *child) count(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != settingsID {
		c.ended++
	}
}

// worked says that it ran a command, and so was not the one that cannot.
func (c *child) worked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended > 0
}

func (c *child) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// send: if it fails the runner is dead, which read sees.
func (c *child) send(o *runner.Order) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = runner.Write(c.orders, o)
}

// read hands on reports until the runner is dead, and then says so to all that
// wait.
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
	_ = c.cmd.Process.Kill() // what it said cannot be understood
	_ = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		select {
		case one.result <- died:
		default: // it has its result
		}
	}
	c.calls = nil
	close(c.dead)
}

// close ends the runner, which kills what it runs.
func (c *child) close() {
	c.writing.Lock()
	_ = c.orders.Close()
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

// close ends the runner and starts no other.
func (p *process) close() {
	if p.stop != nil {
		p.stop()
		<-p.done
	}
}

// logWriter logs what a runner says of itself, which is its last words if any.
type logWriter struct{ log *slog.Logger }

func (w *logWriter) Write(p []byte) (int, error) {
	w.log.Error("runner of commands", "said", clean(string(p), maxErrorLog))
	return len(p), nil
}
