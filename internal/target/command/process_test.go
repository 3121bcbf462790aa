//go:build linux

package command_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/target/command"
)

// runnerOf returns the runner of a command, which it finds by a text in the command's arguments.
func runnerOf(t *testing.T, text string) int {
	t.Helper()
	pid := 0
	require.Eventually(t, func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			args, _ := os.ReadFile(file)
			if !strings.HasPrefix(string(args), "belfry-sandbox\x00") || !strings.Contains(string(args), text) {
				continue
			}
			// The outer bwrap is the runner's child.
			if parent := parentOf(filepath.Dir(file)); isRunner(parent) {
				pid = parent
				return true
			}
		}
		return false
	}, time.Minute, 5*time.Millisecond)
	return pid
}

func parentOf(process string) int {
	text, _ := os.ReadFile(filepath.Join(process, "status"))
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "PPid:"); found {
			pid, _ := strconv.Atoi(strings.TrimSpace(rest))
			return pid
		}
	}
	return 0
}

func isRunner(pid int) bool {
	args, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.HasSuffix(string(args), "\x00runner\x00")
}

// begin delivers a command that waits, in the background, and finds its runner.
func begin(t *testing.T, target *command.Target, timeout time.Duration) (<-chan job.Outcome, string, int) {
	t.Helper()
	return beginWith(t.Context(), t, target, timeout)
}

func beginWith(
	ctx context.Context, t *testing.T, target *command.Target, timeout time.Duration,
) (<-chan job.Outcome, string, int) {
	t.Helper()
	marker := "waits-" + uuid.NewString()
	done := make(chan job.Outcome, 1)
	go func() {
		done <- target.Deliver(ctx, attempt(script("echo begun; sleep 600 # "+marker), timeout))
	}()
	return done, marker, runnerOf(t, marker)
}

// TestTheRunnerKnowsNothing: neither the environment nor an open file of the node reaches it.
func TestTheRunnerKnowsNothing(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("PATH"))
	held, err := os.Open("/etc/hostname") // of the node, and not for its child
	require.NoError(t, err)
	defer func() { _ = held.Close() }()
	target := start(t, options(t))
	done, marker, pid := begin(t, target, time.Minute)
	dir := "/proc/" + strconv.Itoa(pid)
	environment, err := os.ReadFile(dir + "/environ")
	if os.Getuid() != 0 {
		require.ErrorIs(t, err, os.ErrPermission, "not even for its own user")
		target.Close()
		<-done
		return
	}
	require.NoError(t, err)
	require.Equal(t, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\x00PWD=/\x00", string(environment))
	files, err := os.ReadDir(dir + "/fd")
	require.NoError(t, err)
	var kinds []string
	for _, f := range files {
		to, _ := os.Readlink(filepath.Join(dir, "fd", f.Name()))
		kind, _, _ := strings.Cut(to, ":")
		if !strings.HasPrefix(kind, "/sys/fs/cgroup/") { // Go reads the number of processors there
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	self, err := os.Executable()
	require.NoError(t, err)
	require.Subset(t, []string{"anon_inode", "pipe", "/dev/null", self}, slices.Compact(kinds))
	status, err := os.ReadFile(dir + "/status")
	require.NoError(t, err)
	require.Contains(t, string(status), "Uid:\t65534\t65534\t65534\t65534\n")
	require.Contains(t, string(status), "Groups:\t \n")
	require.Contains(t, string(status), "CapEff:\t0000000000000000\n")
	target.Close()
	got := <-done
	require.True(t, got.Retryable)
	require.Empty(t, processes(t, marker))
}

// TestARunnerThatDies: its commands die and fail, and may be retried. The next runner starts soon.
func TestARunnerThatDies(t *testing.T) {
	t.Parallel()
	target := start(t, options(t))
	for range 3 {
		done, marker, pid := begin(t, target, time.Minute)
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		got := <-done
		require.Equal(t, job.Failed, got.Kind)
		require.True(t, got.Retryable && got.Unknown)
		require.Contains(t, got.Message, "its result is unknown: the command runner died")
		require.Eventually(t, func() bool { return len(processes(t, marker)) == 0 }, time.Minute, 5*time.Millisecond)
		require.Equal(t, job.Outcome{Kind: job.Succeeded, Output: "back\n", OutputTotal: 5},
			target.Deliver(t.Context(), attempt(script("echo back"), time.Minute)))
	}
}

// TestCommandsDieWithTheirRunner, even if no other runner follows.
func TestCommandsDieWithTheirRunner(t *testing.T) {
	t.Parallel()
	target := start(t, options(t))
	done, marker, pid := begin(t, target, time.Minute)
	require.Eventually(t, func() bool { return len(target.Outputs()) == 1 }, time.Minute, 5*time.Millisecond,
		"it has begun")
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	target.Close()
	require.True(t, (<-done).Unknown)
	require.Eventually(t, func() bool { return len(processes(t, marker)) == 0 }, time.Minute, 5*time.Millisecond)
}

// TestWhyItCannotStart: the message says what to do.
func TestWhyItCannotStart(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Bubblewrap = "/no/such/bwrap"
	err := command.New(opts).Start(t.Context())
	require.ErrorContains(t, err,
		"commands cannot be run here: bubblewrap is not there (/no/such/bwrap); install the package bubblewrap")
	opts = options(t)
	opts.Paths = []string{"/etc/alternatives"} // nothing that a program needs
	err = command.New(opts).Start(t.Context())
	require.ErrorContains(t, err, "commands cannot be run here: bwrap did not get as far as the command: bwrap: execvp")
}

// TestSlots: without a free slot, a run is deferred, which does not count as an attempt.
func TestSlots(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Slots = 1
	target := start(t, opts)
	ctx, stop := context.WithCancel(t.Context())
	done, _, _ := beginWith(ctx, t, target, time.Minute)
	began := clock.Elapsed()
	got := target.Deliver(t.Context(), attempt(script("echo turn"), time.Minute))
	require.Less(t, clock.Elapsed()-began, clocktest.Allow(30*time.Second), "it does not wait in a slot of the node")
	require.Positive(t, got.RetryAfter)
	require.Equal(t, job.Outcome{
		Kind: job.Deferred, RetryAfter: got.RetryAfter,
		Message: "not run yet: this node already runs 1 commands, its limit; waiting for a free slot",
	}, got)
	run := job.Run{Attempt: 1}
	decision := finish.Decide(finish.Input{Run: run, Outcome: got})
	require.Equal(t, finish.Retries, decision.Kind)
	require.True(t, decision.Free, "it does not count as an attempt")
	stop()
	require.Equal(t, job.Failed, (<-done).Kind)
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), attempt(script("echo turn"), time.Minute)).Kind)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, "not run: the node is stopping; another one retries",
		target.Deliver(stopped, attempt(script("echo turn"), time.Minute)).Message)
}

// TestWhatEndsMean is the table of exit codes.
func TestWhatEndsMean(t *testing.T) {
	t.Parallel()
	target := start(t, options(t))
	for text, want := range map[string]job.Outcome{
		"exit 0":  {Kind: job.Succeeded},
		"exit 1":  {Kind: job.Failed, Status: 1, Message: "exited with code 1"},
		"exit 3":  {Kind: job.Failed, Retryable: true, Status: 3, Message: "exited with code 3"},
		"exit 75": {Kind: job.Failed, Retryable: true, Status: 75, Message: "exited with code 75"},
		"kill -SEGV $$": {
			Kind: job.Failed, Retryable: true, Unknown: true, Status: 139, Message: "killed by signal 11 (SIGSEGV)",
		},
		"echo one; echo two >&2; exit 2": {
			Kind: job.Failed, Status: 2, Message: "exited with code 2: one | two", Output: "one\ntwo\n", OutputTotal: 8,
		},
		"cat; pwd; id -u": {Kind: job.Succeeded, Output: "{\"a\": 1}/tmp\n65534\n", OutputTotal: 19},
	} {
		a := attempt(strings.Replace(script(text), "{", `{"retry_codes": [3], `, 1), time.Minute)
		a.Payload = `{"a": 1}`
		require.Equal(t, want, target.Deliver(t.Context(), a), text)
	}
}

// TestTheKeyIsTheJobs: a job can set its idempotency key.
func TestTheKeyIsTheJobs(t *testing.T) {
	t.Parallel()
	a := attempt(script(`echo "$BELFRY_IDEMPOTENCY_KEY"`), time.Minute)
	a.OwnKey = "nightly/2026-03-29"
	require.Equal(t, "nightly/2026-03-29\n", start(t, options(t)).Deliver(t.Context(), a).Output)
}

// TestEnvironmentIsTheCommands: variables of a job must not reach bubblewrap, which runs outside the sandbox.
func TestEnvironmentIsTheCommands(t *testing.T) {
	t.Parallel()
	got := start(t, options(t)).RunWith(t.Context(), "LD_PRELOAD=/no/such.so")
	require.Equal(t, 1, strings.Count(got, "/no/such.so"), got)
}
