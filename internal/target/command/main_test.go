//go:build linux

package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// directory contains this program where commands can see it, even those of user nobody.
var directory string

// TestMain: this program is the test, the runner, and the command.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "runner":
		if err := runner.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) > 4 && os.Args[1] == "escaped":
		escaped(os.Args[2], os.Args[3], os.Args[4:])
		os.Exit(0)
	case os.Getenv("TEST_SOCKET") != "":
		os.Exit(obey(os.Getenv("TEST_SOCKET")))
	}
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	var err error
	if directory, err = os.MkdirTemp("", "belfry-command-"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	if err := os.Chmod(directory, 0o755); err != nil {
		return 0, err
	}
	// If the machine had such a limit already, the test would not see the sandbox's own.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) // it takes root
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(program(), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(to, from); err != nil {
		return 0, err
	}
	if err := to.Close(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func program() string { return filepath.Join(directory, "program") }

// order is what the server asks the command to do.
type order struct {
	Hang  bool // until the server closes the connection
	Bytes int  // to write
	Echo  bool // write environment and input
	Code  int
}

// obey is the command: it sends the server what it received, and does what the server says.
func obey(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println("no server:", err) //nolint:forbidigo // a command writes
		return 75
	}
	input, _ := io.ReadAll(os.Stdin)
	got := targettest.Delivery{
		IdempotencyKey: os.Getenv("BELFRY_IDEMPOTENCY_KEY"),
		RunID:          os.Getenv("BELFRY_RUN_ID"),
		JobID:          os.Getenv("BELFRY_JOB"),
		DueAt:          os.Getenv("BELFRY_DUE_AT"),
		Attempt:        os.Getenv("BELFRY_ATTEMPT"),
		Traceparent:    os.Getenv("TRACEPARENT"),
		Payload:        string(input),
	}
	if json.NewEncoder(conn).Encode(got) != nil {
		return 75
	}
	var o order
	answers := json.NewDecoder(conn)
	if answers.Decode(&o) != nil {
		return 75
	}
	if o.Hang {
		if answers.Decode(&o) != nil { // the next order
			return 75
		}
	}
	if o.Echo {
		fmt.Println(os.Environ(), string(input)) //nolint:forbidigo // a command writes
	}
	line := strings.Repeat("x", 99) + "\n"
	for range o.Bytes / len(line) {
		_, _ = io.WriteString(os.Stdout, line)
	}
	return o.Code
}

// options returns the options of a node that runs this program and a shell.
func options(t testing.TB) command.Options {
	t.Helper()
	return command.Options{
		Settings: runner.Settings{
			Bubblewrap: "bwrap", Programs: []string{directory, "/bin/sh", "/bin/bash"},
			Paths:  []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"},
			Memory: 256 << 20, Processes: 64, Scratch: 16 << 20,
		},
		Slots: 64, User: 65534, Executable: []string{"/proc/self/exe", "runner"},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func start(t *testing.T, opts command.Options) *command.Target {
	t.Helper()
	target := command.New(opts)
	require.NoError(t, target.Start(t.Context()))
	t.Cleanup(target.Close)
	return target
}

// attempt returns an attempt of a new run.
func attempt(config string, timeout time.Duration) job.Attempt {
	id := uuid.Must(uuid.NewV7())
	return job.Attempt{
		Key:    job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)},
		Number: 1, Timeout: timeout, Config: config,
	}
}

// script returns a config that runs a script.
func script(text string) string {
	config, err := json.Marshal(map[string]any{"program": "/bin/bash", "args": []string{"-c", text}})
	if err != nil {
		panic(err) //nolint:forbidigo // strings always marshal
	}
	return string(config)
}
