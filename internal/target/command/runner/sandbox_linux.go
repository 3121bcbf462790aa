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
	starts   chan func() // done by one thread that never ends: see newSandbox
}

func newSandbox(s *Settings) box {
	b := &sandbox{settings: s, starts: make(chan func())}
	// The kernel kills a command when the thread that started it ends, not the
	// process. The threads of Go come and go; this one stays.
	go func() {
		runtime.LockOSThread()
		// Of this thread, and of the commands that it starts: the node goes first.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
		for start := range b.starts {
			start()
		}
	}()
	// Commands inherit it: when memory runs out the kernel takes it from them.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0)
	// Nobody of the same user looks into this process.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	return b
}

const niceness = 10

// The files that bwrap is given beside stdin, stdout and stderr, in this order.
const (
	argsFD = 3 + iota
	statusFD
	blockFD
	seccompFD
)

// excessError is what a command was killed for.
type excessError string

func (t excessError) Error() string { return string(t) }

// box of one command.
type boxed struct {
	cmd    *exec.Cmd
	status *os.File // what bwrap tells
	block  *os.File // a byte lets the command begin
	output *os.File
	first  int // pid 1 of the command's namespace, by its pid out here
	firstF int // and as a descriptor, which cannot come to mean another process
}

func (b *sandbox) run(ctx context.Context, s *Spec, output func(part []byte, skipped int64)) Result {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	c, err := b.start(s)
	if err != nil {
		return Result{End: NotStarted, Detail: err.Error()}
	}
	var said lockedBuffer // what bwrap says if it does not get as far as the command
	var reading sync.WaitGroup
	reading.Go(func() {
		follow(ctx, io.TeeReader(c.output, &said), output)
		_ = c.output.Close()
	})
	status := json.NewDecoder(c.status)
	err = b.release(c, status, s.Timeout)
	code, told := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(told)
		if n, err := exitCode(status); err == nil {
			code <- n
		}
	}()
	ended := make(chan struct{})
	go b.supervise(c.first, ended, kill)
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
	_ = c.cmd.Wait() // the status tells more
	c.end()
	close(ended)
	<-told
	reading.Wait()
	_ = c.status.Close()
	return result(ctx, err, code, said.String())
}

// result: a code that was told counts, whatever came after it.
func result(ctx context.Context, err error, code <-chan int, said string) Result {
	var over excessError
	switch cause := context.Cause(ctx); {
	case err != nil:
		return Result{End: NotStarted, Detail: err.Error() + sentence(said)}
	case errors.As(cause, &over):
		return Result{End: TooMuch, Detail: string(over)}
	case len(code) == 1:
		return Result{End: Exited, Code: <-code}
	case errors.Is(cause, context.DeadlineExceeded):
		return Result{End: TimedOut}
	case cause != nil:
		return Result{End: Stopped}
	default:
		return Result{End: NotStarted, Detail: "bwrap did not get as far as the command" + sentence(said)}
	}
}

func sentence(said string) string {
	if said = strings.TrimSpace(said); said == "" {
		return ""
	}
	return ": " + said
}

// start starts bwrap, which makes the sandbox and then waits.
func (b *sandbox) start(s *Spec) (c *boxed, err error) {
	bwrap, err := exec.LookPath(b.settings.Bubblewrap)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap is not there (%s); install the package bubblewrap, or say where it is with command.bubblewrap", b.settings.Bubblewrap)
	}
	var theirs, ours [4]*os.File // args, status, block, output
	defer closeAll(theirs[:])
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours[:])
			return nil, err
		}
		theirs[i], ours[i] = r, w
		if i == 1 || i == 3 { // what it tells, and what it writes
			theirs[i], ours[i] = w, r
		}
	}
	filter, err := filterFile()
	if err != nil {
		closeAll(ours[:])
		return nil, err
	}
	defer closeAll([]*os.File{filter})
	cmd := exec.Command(bwrap, append([]string{"--args", strconv.Itoa(argsFD), "--", s.Program}, s.Args...)...) //nolint:gosec,noctx // to run what it is told is its purpose; the list of programs was asked, and it is killed by its pid namespace
	cmd.Env = []string{}                                                                                        // that of the command is among the arguments: it must not reach bwrap itself
	cmd.Args[0] = b.name()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // until bwrap does it itself
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
		_, _ = io.WriteString(ours[0], strings.Join(b.args(s), "\x00")+"\x00") // bwrap complains if it breaks off
		_ = ours[0].Close()
	}()
	return &boxed{cmd: cmd, status: ours[1], block: ours[2], output: ours[3], firstF: -1}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// release waits until the sandbox is made, sets the limits of what will run in
// it, and lets the command begin.
func (b *sandbox) release(c *boxed, status *json.Decoder, timeout time.Duration) error {
	defer func() { _ = c.block.Close() }() // which also lets it begin: it is then killed before
	var told struct {
		ChildPID int `json:"child-pid"`
	}
	if err := status.Decode(&told); err != nil || told.ChildPID <= 0 {
		return errors.New("the sandbox could not be made")
	}
	fd, err := unix.PidfdOpen(told.ChildPID, 0)
	if err != nil {
		return fmt.Errorf("hold on to the command: %w", err)
	}
	c.first, c.firstF = told.ChildPID, fd
	for resource, most := range b.limits(timeout) {
		if err := unix.Prlimit(c.first, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			c.kill()
			return fmt.Errorf("limit the command: %w", err)
		}
	}
	_, err = c.block.Write([]byte{0})
	return err
}

func exitCode(status *json.Decoder) (int, error) {
	for {
		var told struct {
			Code *int `json:"exit-code"`
		}
		if err := status.Decode(&told); err != nil {
			return 0, err
		}
		if told.Code != nil {
			return *told.Code, nil
		}
	}
}

// kill ends all that runs in the sandbox: pid 1 takes its namespace along.
func (c *boxed) kill() {
	if c.firstF >= 0 {
		_ = unix.PidfdSendSignal(c.firstF, unix.SIGKILL, nil, 0)
	}
	_ = c.cmd.Process.Kill()
}

// end kills what is left when bwrap has ended, and waits until it is gone.
func (c *boxed) end() {
	if c.firstF < 0 {
		return
	}
	_ = unix.PidfdSendSignal(c.firstF, unix.SIGKILL, nil, 0)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.firstF), Events: unix.POLLIN}}, -1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Close(c.firstF)
}

// lockedBuffer keeps the beginning of what is written to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

const maxSaid = 400

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p[:min(len(p), maxSaid-len(l.b))]...)
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
