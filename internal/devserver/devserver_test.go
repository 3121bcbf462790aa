package devserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
)

// devProcess is belfry dev as users start it.
type devProcess struct {
	t        *testing.T
	program  string
	cmd      *exec.Cmd
	lines    chan string
	url, key string
}

func startDev(t *testing.T, program, tmp string, args ...string) *devProcess {
	t.Helper()
	port, err := freePort(t.Context())
	require.NoError(t, err)
	at := "127.0.0.1:" + strconv.Itoa(port)
	d := &devProcess{t: t, program: program, lines: make(chan string, 100), url: "http://" + at}
	d.cmd = exec.Command(program, append([]string{"dev", "--listen", at, "--echo", "127.0.0.1:0"}, args...)...)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	d.cmd.Stderr = d.cmd.Stdout
	require.NoError(t, d.cmd.Start())
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // has ended already if the test passed
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			d.lines <- lines.Text()
		}
		close(d.lines)
	}()
	return d
}

// good runs a client command that must succeed, and returns its output.
func (d *devProcess) good(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(d.program, append(args, "--server", d.url, "--key", d.key)...)
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s", out)
	return string(out)
}

// until waits for a line that contains the text.
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

func TestTargetsReachThisMachineAlone(t *testing.T) {
	t.Parallel()
	c := (&devServer{}).nodeConfig("")
	require.True(t, c.NoPublicTargets)
	require.Equal(t, []string{"127.0.0.0/8", "::1/128"}, c.Targets.Allowed())
	c = (&devServer{Options: Options{Allow: "10.0.0.0/8,public"}}).nodeConfig("")
	require.Equal(t, []string{"127.0.0.0/8", "::1/128", "10.0.0.0/8", "public"}, c.Targets.Allowed())
}

// TestATakenAddressIsFoundFirst: no database is started, and there is none here.
func TestATakenAddressIsFoundFirst(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	err = Run(t.Context(), Options{
		Listen: taken.Addr().String(), Echo: "127.0.0.1:0", Data: t.TempDir(), Postgres: t.TempDir(), Out: io.Discard,
	})
	require.ErrorContains(t, err, "another address: --listen")
}

func TestDev(t *testing.T) {
	t.Parallel()
	if found, _ := findPostgres(t.Context()); found == "" {
		t.Skip("no PostgreSQL is installed, and tests do not download one")
	}
	program := filepath.Join(t.TempDir(), "belfry")
	out, err := exec.Command("go", "build", "-o", program, "github.com/belfry-dev/belfry/cmd/belfry").CombinedOutput()
	require.NoError(t, err, "%s", out)

	tmp, err := os.MkdirTemp("", "belfry-test-") // another user cannot reach t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	require.NoError(t, os.Chmod(tmp, 0o755))
	d := startDev(t, program, tmp)
	link := strings.TrimSpace(d.until("/ui/login#code="))
	require.True(t, strings.HasPrefix(link, d.url+"/ui/login#code="), link)
	d.opensOnce(link)
	fields := strings.Fields(d.until("key "))
	for fields[0] != "key" { // "schema, role and key …" matches too
		fields = strings.Fields(d.until("key "))
	}
	d.key = fields[1]
	d.until(program + " job get demo")                        // as it was called
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGPIPE)) // as when a client disconnects: it goes on
	d.until("POST /demo")
	require.Contains(t, d.good("job", "get", "demo"), "every 10s")
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	d.until("stopping")
	require.NoError(t, d.cmd.Wait())
	gone(t, tmp)
	unread := exec.Command("sh", "-c", `"$1" dev --listen 127.0.0.1:0 --echo 127.0.0.1:0 | true`, "sh", program)
	unread.Env = append(os.Environ(), "TMPDIR="+tmp)
	_ = unread.Run() // may or may not report the closed pipe
	gone(t, tmp)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")

	// With --data, jobs and the key survive a restart, even after kill -9. The database stops in any case.
	data := filepath.Join(tmp, "data")
	var key string
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d = startDev(t, program, tmp, "--data", data, "--no-demo")
		export := d.until("export BELFRY_SERVER")
		_, d.key, _ = strings.Cut(export, "BELFRY_KEY=")
		d.until(program + " job create hello") // as it was called
		second := startDev(t, program, tmp, "--data", data)
		second.until("another belfry dev uses " + data)
		require.Error(t, second.cmd.Wait())
		if key == "" {
			key = d.key
			d.good("job", "create", "mine", "--every", "1h", "--url", "http://127.0.0.1:1/")
		}
		require.Equal(t, key, d.key)
		require.Contains(t, d.good("job", "get", "mine"), "every 1h")
		require.NoError(t, d.cmd.Process.Signal(end))
		_ = d.cmd.Wait()
		gone(t, data)
	}
	// An address in use is an error that names the flag.
	other := startDev(t, program, tmp, "--echo", d.taken())
	other.until("another address: --echo")
	require.Error(t, other.cmd.Wait())
	gone(t, tmp)
}

// opensOnce checks that a link logs in, and does so once.
func (d *devProcess) opensOnce(link string) {
	d.t.Helper()
	page, code, _ := strings.Cut(link, "#code=")
	for _, want := range []int{http.StatusCreated, http.StatusUnauthorized} {
		resp, err := http.Post(d.url+"/api/v1/session", "application/json", strings.NewReader(`{"code":"`+code+`"}`))
		require.NoError(d.t, err)
		require.NoError(d.t, resp.Body.Close())
		require.Equal(d.t, want, resp.StatusCode)
		require.Equal(d.t, want == http.StatusCreated, len(resp.Cookies()) == 1)
	}
	resp, err := http.Get(page)
	require.NoError(d.t, err)
	require.NoError(d.t, resp.Body.Close())
	require.Equal(d.t, http.StatusOK, resp.StatusCode)
	require.Contains(d.t, resp.Header.Get("Content-Security-Policy"), "script-src 'self'")
}

// taken returns an address that is in use until the test ends.
func (d *devProcess) taken() string {
	port, err := freePort(d.t.Context())
	require.NoError(d.t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	_, stop, err := startEcho(d.t.Context(), address, terminal.NewPrinter(io.Discard))
	require.NoError(d.t, err)
	d.t.Cleanup(stop)
	return address
}
