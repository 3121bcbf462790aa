package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// devProcess is belfry dev as users start it.
type devProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	api   *api
}

func startDev(t *testing.T, program, tmp string, args ...string) *devProcess {
	t.Helper()
	port, err := freePort(t.Context())
	require.NoError(t, err)
	d := &devProcess{t: t, lines: make(chan string, 100)}
	at := "127.0.0.1:" + strconv.Itoa(port)
	d.cmd = exec.Command(program, append([]string{"dev", "--listen", at, "--echo", "127.0.0.1:0"}, args...)...)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	d.cmd.Stderr = d.cmd.Stdout
	require.NoError(t, d.cmd.Start())
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // it is gone, if the test passed
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			d.lines <- lines.Text()
		}
		close(d.lines)
	}()
	d.api = &api{t, "http://" + at, ""}
	return d
}

// until waits for a line with a text.
func (d *devProcess) until(text string) string {
	d.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case line, ok := <-d.lines:
			d.t.Log(line)
			require.True(d.t, ok, "it ended before it said %q", text)
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			require.Fail(d.t, "it does not say "+text)
		}
	}
}

// gone waits until no process works in a directory.
func gone(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		cwds, err := filepath.Glob("/proc/[0-9]*/cwd")
		require.NoError(t, err)
		for _, cwd := range cwds {
			if to, err := os.Readlink(cwd); err == nil && strings.HasPrefix(to, dir) {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond, "the database is still there")
}

func TestDev(t *testing.T) {
	t.Parallel()
	if found, _ := findPostgres(t.Context()); found == "" {
		t.Skip("no PostgreSQL is installed, and tests do not download one")
	}
	program := filepath.Join(t.TempDir(), "belfry")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	tmp, err := os.MkdirTemp("", "belfry-test-") // t.TempDir is too deep for another user to reach
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	require.NoError(t, os.Chmod(tmp, 0o755))
	d := startDev(t, program, tmp)
	fields := strings.Fields(d.until("key "))
	for fields[0] != "key" { // "schema, role and key …" has one too
		fields = strings.Fields(d.until("key "))
	}
	d.api.key = fields[1]
	d.until("POST /demo")
	require.Contains(t, d.api.good("job", "get", "demo"), "every 10s")
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	d.until("stopping")
	require.NoError(t, d.cmd.Wait())
	gone(t, tmp)
	unread := exec.Command("sh", "-c", `"$1" dev --listen 127.0.0.1:0 --echo 127.0.0.1:0 | true`, "sh", program)
	unread.Env = append(os.Environ(), "TMPDIR="+tmp)
	_ = unread.Run() // it says so at the end of the pipe, or not
	gone(t, tmp)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")

	// With --data jobs and the key are there again, also after kill -9, which
	// takes the database down too.
	data := filepath.Join(tmp, "data")
	var key string
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d = startDev(t, program, tmp, "--data", data, "--no-demo")
		export := d.until("export BELFRY_SERVER")
		_, d.api.key, _ = strings.Cut(export, "BELFRY_KEY=")
		if key == "" {
			key = d.api.key
			d.api.good("job", "create", "mine", "--every", "1h", "--url", "http://127.0.0.1:1/")
		}
		require.Equal(t, key, d.api.key)
		require.Contains(t, d.api.good("job", "get", "mine"), "every 1h")
		require.NoError(t, d.cmd.Process.Signal(end))
		_ = d.cmd.Wait()
		gone(t, data)
	}
	// An address that is taken is told of.
	other := startDev(t, program, tmp, "--echo", d.taken())
	other.until("another address: --echo")
	require.Error(t, other.cmd.Wait())
	gone(t, tmp)
}

// taken is an address that somebody listens at until the test ends.
func (d *devProcess) taken() string {
	port, err := freePort(d.t.Context())
	require.NoError(d.t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	_, stop, err := echo(d.t.Context(), address, &printer{w: io.Discard})
	require.NoError(d.t, err)
	d.t.Cleanup(stop)
	return address
}
