package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sandbox runs commands in bubblewrap.
type sandbox struct {
	settings *Settings
	starts   chan func() // executed by one thread that never ends: see newSandbox
}

func newSandbox(s *Settings) isolation {
	b := &sandbox{settings: s, starts: make(chan func())}
	// With Pdeathsig, the kernel kills a command when the thread that started it ends. Go ends threads at any
	// time, so one locked thread starts all commands.
	go func() {
		runtime.LockOSThread()
		// The priority applies to this thread and its commands: the node has priority over commands.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
		for start := range b.starts {
			start()
		}
	}()
	// Commands inherit the score: when memory runs out, the kernel kills them first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0)
	// Other processes of the same user must not read this process.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	return b
}

const niceness = 10

// File descriptors of bwrap in addition to stdin, stdout and stderr, in this order.
const (
	argsFD = 3 + iota
	statusFD
	blockFD
	seccompFD
)

// killed is the exit code that bwrap reports for a command that SIGKILL has ended.
const killed = 128 + int(unix.SIGKILL)

// limitError says which limit a command was killed for.
type limitError string

func (e limitError) Error() string { return string(e) }

// boxed is one command in its sandbox.
type boxed struct {
	cmd     *exec.Cmd
	status  *os.File // bwrap writes its status here
	block   *os.File // a byte lets the command start
	output  *os.File
	init    int // the host's pid of pid 1 in the command's namespace
	initPFD int // its pidfd, which cannot come to refer to another process; -1: none
}

func (b *sandbox) run(ctx context.Context, s *Spec, output outputFunc) Result {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	c, err := b.start(s)
	if err != nil {
		return Result{End: NotStarted, Detail: err.Error()}
	}
	var head headBuffer // bwrap's own error message, if it does not start the command
	var reading sync.WaitGroup
	reading.Go(func() {
		follow(ctx, io.TeeReader(c.output, &head), output)
		_ = c.output.Close()
	})
	status := json.NewDecoder(c.status)
	err = b.release(c, status, s.Timeout)
	code, statusRead := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(statusRead)
		if n, err := exitCode(status); err == nil {
			code <- n
		}
	}()
	ended := make(chan struct{})
	go b.supervise(c.init, ended, kill)
	go func() {
		select {
		case <-ctx.Done():
			c.kill()
		case <-ended:
		}
	}()
	if err != nil {
		kill(err)
	}
	_ = c.cmd.Wait() // the status says more
	c.end()
	close(ended)
	<-statusRead
	reading.Wait()
	_ = c.status.Close()
	return result(ctx, err, code, head.String())
}

// result returns how a command ended. An exit code counts, whatever happened after it, except that of SIGKILL after the
// runner has killed the command: bwrap may report it before it dies itself.
func result(ctx context.Context, err error, code <-chan int, head string) Result {
	var over limitError
	var status int
	ended := len(code) == 1
	if ended {
		status = <-code
	}
	switch cause := context.Cause(ctx); {
	case err != nil:
		return Result{End: NotStarted, Detail: err.Error() + suffix(head)}
	case errors.As(cause, &over):
		return Result{End: TooMuch, Detail: string(over)}
	case ended && (cause == nil || status != killed):
		return Result{End: Exited, Code: status}
	case errors.Is(cause, context.DeadlineExceeded):
		return Result{End: TimedOut}
	case cause != nil:
		return Result{End: Stopped}
	default:
		return Result{End: NotStarted, Detail: "bwrap did not get as far as the command" + suffix(head)}
	}
}

// suffix returns a text to append to a message.
func suffix(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}

// start starts bwrap, which creates the sandbox and then waits for release.
func (b *sandbox) start(s *Spec) (c *boxed, err error) {
	var theirs, ours [4]*os.File // args, status, block, output
	defer closeAll(theirs[:])
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours[:])
			return nil, err
		}
		theirs[i], ours[i] = r, w
		if i == 1 || i == 3 { // bwrap writes status and output
			theirs[i], ours[i] = w, r
		}
	}
	filter, err := filterFile()
	if err != nil {
		closeAll(ours[:])
		return nil, err
	}
	defer closeAll([]*os.File{filter})
	args := append([]string{"--args", strconv.Itoa(argsFD), "--", s.Program}, s.Args...)
	//nolint:gosec,noctx // running commands is its purpose: allow has checked it, and kill ends it
	cmd := exec.Command(b.settings.Bubblewrap, args...)
	cmd.Env = []string{}           // the command's environment is in the arguments and must not reach bwrap itself
	cmd.Args[0] = "belfry-sandbox" // for whoever lists processes
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // until bwrap sets it itself
	cmd.Stdin = bytes.NewReader(s.Stdin)
	cmd.Stdout, cmd.Stderr = theirs[3], theirs[3]
	cmd.ExtraFiles = []*os.File{theirs[0], theirs[1], theirs[2], filter}
	started := make(chan error)
	b.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		closeAll(ours[:])
		return nil, fmt.Errorf("start bwrap: %w", err)
	}
	go func() {
		// bwrap reports an error if it breaks off
		_, _ = io.WriteString(ours[0], strings.Join(b.args(s), "\x00")+"\x00")
		_ = ours[0].Close()
	}()
	return &boxed{cmd: cmd, status: ours[1], block: ours[2], output: ours[3], initPFD: -1}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// release waits until the sandbox is ready, sets its limits, and lets the command start.
func (b *sandbox) release(c *boxed, status *json.Decoder, timeout time.Duration) error {
	defer func() { _ = c.block.Close() }() // this too lets the command start, but after an error it is killed
	var ready struct {
		ChildPID int `json:"child-pid"`
	}
	if err := status.Decode(&ready); err != nil || ready.ChildPID <= 0 {
		return errors.New("the sandbox could not be created")
	}
	fd, err := unix.PidfdOpen(ready.ChildPID, 0)
	if err != nil {
		return fmt.Errorf("open the command's process: %w", err)
	}
	c.init, c.initPFD = ready.ChildPID, fd
	for resource, limit := range b.limits(timeout) {
		if err := unix.Prlimit(c.init, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
			c.kill()
			return fmt.Errorf("limit the command: %w", err)
		}
	}
	_, err = c.block.Write([]byte{0})
	return err
}

func exitCode(status *json.Decoder) (int, error) {
	for {
		var s struct {
			Code *int `json:"exit-code"`
		}
		if err := status.Decode(&s); err != nil {
			return 0, err
		}
		if s.Code != nil {
			return *s.Code, nil
		}
	}
}

// kill kills everything in the sandbox: the kernel kills a pid namespace with its pid 1.
func (c *boxed) kill() {
	if c.initPFD >= 0 {
		_ = unix.PidfdSendSignal(c.initPFD, unix.SIGKILL, nil, 0)
	}
	_ = c.cmd.Process.Kill()
}

// end kills what is left after bwrap has ended, and waits until it is gone.
func (c *boxed) end() {
	if c.initPFD < 0 {
		return
	}
	_ = unix.PidfdSendSignal(c.initPFD, unix.SIGKILL, nil, 0)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.initPFD), Events: unix.POLLIN}}, -1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Close(c.initPFD)
}

// headBuffer keeps the beginning of what is written to it. Safe for concurrent use.
type headBuffer struct {
	mu sync.Mutex
	b  []byte
}

const maxHead = 400

func (h *headBuffer) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, p[:min(len(p), maxHead-len(h.b))]...)
	return len(p), nil
}

func (h *headBuffer) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.b)
}
