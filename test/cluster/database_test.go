package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// database is a PostgreSQL server for one test, which may kill it. Its data is on disk, and fsync is on.
type database struct {
	bin, dir string
	port     int
	user     *syscall.Credential // PostgreSQL refuses to run as root; nil if the test does not
	settings []string            // in addition to the usual ones, as name=value
	log      *os.File
	server   *exec.Cmd
	clock    string // the file that says how far the server's clock is off; empty: the clock of the machine
}

func newDatabase(t *testing.T, settings ...string) *database {
	t.Helper()
	d := emptyDatabase(t, settings...)
	d.create(t)
	return d
}

// create creates the data and starts the server.
func (d *database) create(t *testing.T) {
	t.Helper()
	require.NoError(t,
		d.command("initdb", "-D", d.dir, "-U", "belfry", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
			"--no-sync", "--data-checksums").Run()) // pg_rewind needs checksums
	_, err := d.start(t.Context())
	require.NoError(t, err)
}

// emptyDatabase has no data yet.
func emptyDatabase(t *testing.T, settings ...string) *database {
	t.Helper()
	d := &database{bin: findPostgres(t), port: freePort(t), settings: settings}
	dir, err := os.MkdirTemp("", "belfry-postgres-") // not t.TempDir, which other users cannot enter
	require.NoError(t, err)
	d.dir = filepath.Join(dir, "data")
	t.Cleanup(func() {
		assert.NoError(t, d.kill(true))
		keepLog(t, fmt.Sprintf("postgres-%d", d.port), d.log.Name())
		_ = d.log.Close()
		_ = os.RemoveAll(dir)
	})
	d.log, err = os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		d.user = unprivileged(t)
		require.NoError(t, os.Chown(dir, int(d.user.Uid), int(d.user.Gid)))
	}
	return d
}

// findPostgres returns the directory of the server's programs, the newest of Debian's versions.
func findPostgres(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path) // the other programs are where it really is
		require.NoError(t, err)
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	require.NoError(t, err)
	require.NotEmpty(t, found,
		"this test starts a PostgreSQL server of its own and finds no program for it; run: dev/services up postgres")
	return filepath.Dir(slices.Max(found))
}

// unprivileged is the user that dev/services runs servers as, or Debian's own.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"belfry-dev", "postgres"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	require.Fail(t, "PostgreSQL cannot run as root, and there is no user for it; run: dev/services up postgres")
	return nil
}

// freePort returns a port below those that the system gives to clients. A client port could be taken while the server
// is down, or a client that retries to connect could get it and connect to itself.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	require.Fail(t, "no free port")
	return 0
}

func (d *database) url() string {
	return fmt.Sprintf("postgres://belfry@127.0.0.1:%d/postgres?sslmode=disable", d.port)
}

// serverRole is the role that nodes log in as.
const serverRole = "belfry_server"

// serverURL creates the role that nodes log in as.
func (d *database) serverURL(t *testing.T) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.url())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	_, err = c.Exec(t.Context(), `CREATE ROLE `+serverRole+` LOGIN`)
	require.NoError(t, err)
	require.NoError(t, postgres.GrantServer(t.Context(), d.url(), postgres.GrantParams{Role: serverRole}))
	return pgtest.As(t, d.url(), serverRole)
}

func (d *database) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", d.log, d.log
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.user, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts the server on its data. It returns when the server accepted connections.
func (d *database) start(ctx context.Context) (accepted time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// PostgreSQL does not start while a process of the previous server lives. It cannot always know: a zombie counts as
	// alive.
	if err := until(ctx, func() bool { return len(d.processes()) == 0 }); err != nil {
		return accepted, fmt.Errorf("processes of the previous server are left: %w", err)
	}
	if err := os.Remove(filepath.Join(d.dir, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return accepted, err
	}
	args := []string{
		"-D", d.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(d.port), "-c", "unix_socket_directories=",
		"-c", "shared_buffers=128MB", "-c", "max_connections=100", "-c", "fsync=on", "-c", "synchronous_commit=on",
	}
	for _, s := range d.settings {
		args = append(args, "-c", s)
	}
	d.server = d.command("postgres", args...)
	if d.clock != "" {
		d.server.Env = append(d.server.Env, d.clockEnvironment()...)
	}
	if err := d.server.Start(); err != nil {
		return accepted, err
	}
	err = until(ctx, func() bool {
		c, err := pgx.Connect(ctx, d.url())
		if err != nil {
			return false
		}
		accepted = clock.Now()
		_ = c.Close(ctx)
		return true
	})
	if err != nil {
		err = fmt.Errorf("PostgreSQL does not accept connections: %w", err)
	}
	return accepted, err
}

// kill ends the server with SIGKILL: its first process, which the others follow when they are idle, or all of them.
func (d *database) kill(all bool) error {
	if d.server == nil {
		return nil
	}
	pids := d.processes()
	if err := d.server.Process.Kill(); err != nil {
		return err
	}
	_ = d.server.Wait() // "signal: killed"
	d.server = nil
	if all {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return nil
}

// processes lists the live processes of the server: their working directory is its directory, and dead processes have
// none.
func (d *database) processes() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil && dir == d.dir {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// until waits for a condition.
func until(ctx context.Context, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
