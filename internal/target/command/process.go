package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
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
	retirePause = 100 * time.Millisecond
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
	sees      []os.FileInfo // the files of the settings when it started; nil: not there
	outdated  chan struct{} // closed when it gets no more commands, because they have changed
}

// call is a running command.
type call struct {
	output *output
	result chan runner.Result // has a buffer of one
}

// start starts the first runner. The error says why commands cannot be run here. keep starts later ones.
func (p *process) start(ctx context.Context) error {
	if err := findBubblewrap(&p.opts); err != nil {
		return fmt.Errorf("commands cannot be run here: %w", err)
	}
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

// keep starts another runner when one dies, with a longer pause each time, or is outdated.
func (p *process) keep(ctx context.Context, c *child) {
	defer close(p.done)
	var retiring sync.WaitGroup
	defer retiring.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	pause := firstPause
	for {
		if c != nil {
			select {
			case <-c.dead:
				p.set(nil)
				if c.worked() {
					pause = firstPause
				}
				p.opts.Log.Error("command runner died", "next_in", pause)
			case <-c.outdated:
				old := c
				retiring.Go(func() { old.retire(ctx) })
				pause = firstPause
			case <-ctx.Done():
				c.close()
				return
			}
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
	switch {
	case c != nil:
		close(p.ready)
	case p.child != nil:
		p.ready = make(chan struct{})
	}
	p.child = c
}

// spawn starts a runner and waits until it has tried its sandbox.
func (p *process) spawn(ctx context.Context) (*child, error) {
	c := &child{calls: map[uint64]*call{}, dead: make(chan struct{}), outdated: make(chan struct{}), sees: p.look()}
	var err error
	if c.cmd, err = isolate(&p.opts); err != nil {
		return nil, err
	}
	defer closeFiles(c.cmd.ExtraFiles)
	// Nothing of the node's environment.
	c.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	c.cmd.Dir = "/"
	if c.requests, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	reports, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr := &logWriter{log: p.opts.Log}
	c.cmd.Stderr = stderr
	started := make(chan error)
	go func() {
		// The sandbox dies with the thread that started it, so this thread lives as long as the runner.
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.read(reports)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the command runner: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	settings := p.opts.Resolved()
	got := c.do(ctx, &runner.Request{ID: settingsID, Settings: &settings}, c.add(settingsID, nil))
	if got.End == runner.Exited {
		return c, nil
	}
	c.close()
	reasons := []string{got.Detail}
	if got.End == runner.Lost && stderr.last != "" {
		reasons[0] = stderr.last // of bwrap, if the runner did not start
	}
	if len(p.opts.Programs) > 0 {
		reasons = append(reasons, hints()...)
	}
	return nil, fmt.Errorf("commands cannot be run here: %s", strings.Join(reasons, "; "))
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// look returns which files the paths of the settings are now. A runner whose sandbox shows only these sees those that
// were there when it started.
func (p *process) look() (files []os.FileInfo) {
	if len(p.opts.Programs) == 0 || p.opts.Socket != "" {
		return nil
	}
	for _, path := range p.opts.Visible() {
		info, _ := os.Stat(path)
		files = append(files, info)
	}
	return files
}

// current returns the runner and registers a call with it. If a path of the settings is another file now, another
// runner replaces it. The channel is closed when there is one.
func (p *process) current(out *output) (c *child, id uint64, one *call, ready <-chan struct{}) {
	sees := p.look()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil && !slices.EqualFunc(sees, p.child.sees, sameFile) {
		close(p.child.outdated)
		p.child, p.ready = nil, make(chan struct{})
	}
	if p.child == nil {
		return nil, 0, nil, p.ready
	}
	p.lastID++
	return p.child, p.lastID, p.child.add(p.lastID, out), nil
}

func sameFile(a, b os.FileInfo) bool {
	return a == nil && b == nil || a != nil && b != nil && os.SameFile(a, b)
}

// run runs a command. If there is no runner, it waits for one until ctx ends.
func (p *process) run(ctx context.Context, s *runner.Spec, o *output) runner.Result {
	for {
		c, id, one, ready := p.current(o)
		if c != nil {
			start := *s
			if s.Image == "" { // the sandbox of the runner lacks links outside of its directories
				start.Program = runner.Resolve(s.Program)
			}
			return c.do(ctx, &runner.Request{ID: id, Start: &start}, one)
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return runner.Result{End: runner.NotStarted, Detail: "there is no command runner now; see the node's log"}
		}
	}
}

// add registers a call. It returns nil if the runner is dead.
func (c *child) add(id uint64, out *output) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		return nil
	}
	one := &call{output: out, result: make(chan runner.Result, 1)}
	c.calls[id] = one
	return one
}

// do sends a request and waits for its result. When ctx ends, it has the command killed and waits until it
// has ended, at most killTime.
func (c *child) do(ctx context.Context, r *runner.Request, one *call) runner.Result {
	if one == nil {
		return died
	}
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

// retire stops the runner when its last command has ended, or ctx has.
func (c *child) retire(ctx context.Context) {
	tick := time.NewTicker(retirePause)
	defer tick.Stop()
	for c.busy() && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-c.dead:
		case <-ctx.Done():
		}
	}
	c.close()
}

func (c *child) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
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
type logWriter struct {
	log  *slog.Logger
	last string // read it after the runner has died
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.last = message.Clean(string(p), maxErrorLog)
	w.log.Error("command runner wrote to stderr", "text", w.last)
	return len(p), nil
}
