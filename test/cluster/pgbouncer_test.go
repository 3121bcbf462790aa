package cluster_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

const pgbouncer = "/usr/sbin/pgbouncer"

// pooled is whether all nodes of this test run reach the database through PgBouncer.
func pooled() bool { return os.Getenv("DATABASE") == "pgbouncer" }

// throughPgBouncer starts a PgBouncer in transaction mode in front of the server at address, and returns the URL that
// leads through it. It has fewer server connections than nodes have connections to it, so that they are shared.
func throughPgBouncer(t *testing.T, address string) string {
	t.Helper()
	program, err := exec.LookPath(pgbouncer)
	require.NoError(t, err, "run: dev/services up pgbouncer")
	u, err := url.Parse(address)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "belfry-pgbouncer-") // not t.TempDir, which other users cannot enter
	require.NoError(t, err)
	port := freePort(t)
	settings, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users.txt")
	for name, text := range map[string]string{
		users: fmt.Sprintf("%q \"\"\n", u.User.Username()),
		settings: fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
server_login_retry = 1
`, u.Hostname(), u.Port(), port, users),
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	cmd := exec.Command(program, settings)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // it refuses to run as root
		cmd.SysProcAttr.Credential = unprivileged(t)
		for _, path := range []string{dir, settings, users} {
			require.NoError(t, os.Chown(path, int(cmd.SysProcAttr.Credential.Uid), int(cmd.SysProcAttr.Credential.Gid)))
		}
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // "signal: killed"
		if t.Failed() {
			t.Log("PgBouncer:", cmd.ProcessState)
		}
		keepLog(t, "pgbouncer", log.Name())
		_ = log.Close()
		_ = os.RemoveAll(dir)
	})
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, until(ctx, func() bool {
		conn, err := pgconn.Connect(ctx, u.String())
		if err == nil {
			_ = conn.Close(ctx)
		}
		return err == nil
	}), "PgBouncer does not accept connections")
	return u.String()
}
