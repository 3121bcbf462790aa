//go:build linux

package command_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
)

// escaped is a process with the rights of a runner. It tries what a command would try that has left its sandbox, and
// reports what it got through with.
func escaped(node, address string, files []string) {
	var got []string
	try := func(name string, err error) {
		if err == nil {
			got = append(got, name)
		}
	}
	read := func(name, path string) {
		_, err := os.ReadFile(path)
		try(name, err)
	}
	for _, file := range files {
		read(filepath.Base(file), file)
		others, _ := filepath.Glob("/proc/[0-9]*")
		for _, other := range others {
			read(filepath.Base(file), other+"/root"+file)
			read(filepath.Base(file), other+"/cwd/"+file)
		}
		// As root of a user namespace of its own, which may mount and unmount.
		cmd := exec.Command("/bin/sh", "-c", `mkdir /tmp/x; for at in /tmp/x /tmp /proc /usr /; do umount -l $at; done
			mount --rbind / /tmp; cat "$1" || cat "/tmp/$1"`, "sh", file)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		}
		try(filepath.Base(file), cmd.Run())
	}
	read("environ", "/proc/"+node+"/environ")
	_, err := os.Open("/proc/" + node + "/mem")
	try("mem", err)
	_, err = os.ReadDir("/proc/" + node + "/fd")
	try("fd", err)
	pid, _ := strconv.Atoi(node)
	try("signal", unix.Kill(pid, 0))
	_, err = net.Dial("tcp", address)
	try("network", err)
	slices.Sort(got)
	var r runner.Request
	_ = runner.Read(bufio.NewReader(os.Stdin), &r)
	_ = runner.Write(os.Stdout, runner.Report{ID: r.ID, Result: &runner.Result{
		End: runner.NotStarted, Detail: fmt.Sprint("got through with ", slices.Compact(got)),
	}})
}

// TestAnEscapeFindsNothing: a process with the rights of the runner, outside the sandbox of a command, reads no file of
// the node, although they have the same user, and reaches neither its process nor the network.
func TestAnEscapeFindsNothing(t *testing.T) {
	t.Parallel()
	if os.Getenv("ESCAPE") == "" { // in a process of its own, as a node that is not root
		cmd := exec.Command(program(), "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "ESCAPE=1"}
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64322, Gid: 64322}}
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	arguments := []string{"escaped", strconv.Itoa(os.Getpid()), listener.Addr().String()}
	for _, name := range []string{"keyset", "belfry.yaml", "tls.key"} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte("canary"), 0o600))
		arguments = append(arguments, file)
	}
	alone, err := exec.Command(program(), arguments...).Output()
	require.NoError(t, err)
	expected := "[belfry.yaml environ fd keyset mem network signal tls.key]"
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && string(scope) != "0\n" {
		expected = strings.Replace(expected, " mem", "", 1) // this machine keeps it from children
	}
	require.Contains(t, string(alone), expected, "without the sandbox of the runner")
	opts := options(t)
	opts.Executable = append([]string{"/proc/self/exe"}, arguments...)
	require.ErrorContains(t, command.New(opts).Start(t.Context()), "got through with []")
}

// TestChangedPrograms: what replaces a listed file, a link or a missing directory runs at once, and commands of the
// runner before go on.
func TestChangedPrograms(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(directory, t.Name())
	file, link, missing := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "missing")
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path+".new", []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		require.NoError(t, os.Rename(path+".new", path))
	}
	write(file, "echo one")
	write(filepath.Join(dir, "1/run"), "echo first")
	write(filepath.Join(dir, "2/run"), "echo second")
	require.NoError(t, os.Symlink("1", link))
	opts := options(t)
	opts.Programs = []string{"/bin/bash", file, link, missing}
	target := start(t, opts)
	output := func(path string) string {
		got := target.Deliver(t.Context(), attempt(`{"program": "`+path+`"}`, time.Minute))
		return got.Output + got.Message
	}
	require.Equal(t, "one\n", output(file))
	require.Equal(t, "first\n", output(link+"/run"))
	require.Contains(t, output(missing+"/run"), "command.programs")
	done, _, _ := begin(t, target, time.Minute)
	require.Eventually(t, func() bool { return len(target.Outputs()) == 1 }, time.Minute, 5*time.Millisecond,
		"it has begun")

	write(file, "echo two")
	require.Equal(t, "two\n", output(file))
	require.NoError(t, os.Symlink("2", link+".new"))
	require.NoError(t, os.Rename(link+".new", link))
	require.Equal(t, "second\n", output(link+"/run"))
	write(missing+"/run", "echo found")
	require.Equal(t, "found\n", output(missing+"/run"))
	require.Empty(t, done, "it still runs")
	target.Close()
	got := <-done
	require.Equal(t, job.Failed, got.Kind)
	require.Equal(t, "begun\n", got.Output, strings.TrimSpace(got.Message))
}

// TestListedByLink: a job may name a program of the list by any link, and the list may name it by a link.
func TestListedByLink(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(directory, t.Name())
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "releases/1"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tools"), 0o755))
	file, current := filepath.Join(dir, "releases/1/run"), filepath.Join(dir, "current")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\necho ran\n"), 0o755))
	require.NoError(t, os.Symlink("releases/1", current))
	require.NoError(t, os.Symlink(file, filepath.Join(dir, "tools/link")))
	for _, listed := range []string{file, current} {
		opts := options(t)
		opts.Programs = []string{listed}
		target := start(t, opts)
		for _, named := range []string{file, filepath.Join(current, "run"), filepath.Join(dir, "tools/link")} {
			a := attempt(`{"program": "`+named+`"}`, time.Minute)
			require.Equal(t, "ran\n", target.Deliver(t.Context(), a).Output, "%s, listed: %s", named, listed)
		}
	}
}

// TestCommandsOutliveSignals: a supervisor sends SIGTERM to all processes of a node that stops, and commands have the time
// that the node gives them.
func TestCommandsOutliveSignals(t *testing.T) {
	t.Parallel()
	target := start(t, options(t))
	done, _, first := begin(t, target, time.Minute)
	var all []int
	for pid := first; pid != os.Getpid(); pid = parentOf("/proc/" + strconv.Itoa(pid)) {
		require.Greater(t, pid, 1)
		all = append(all, pid)
	}
	require.Len(t, all, 3, "the runner, and two processes of its sandbox")
	for _, pid := range all {
		require.NoError(t, unix.Kill(pid, unix.SIGTERM))
	}
	second, _, again := begin(t, target, time.Minute)
	require.Equal(t, first, again, "it is the same runner")
	require.Empty(t, done, "it still runs")
	target.Close()
	<-done
	<-second
}
