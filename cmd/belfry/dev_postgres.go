package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
	"github.com/spf13/cobra"
)

const (
	devUser     = "belfry"
	leastMajor  = 15
	databaseEnd = 20 * time.Second // for a database to stop
)

// devDatabase is a PostgreSQL of belfry dev's own. A process of its own keeps it,
// for two reasons: PostgreSQL refuses to run as root, so that it must be another
// user's; and when belfry dev dies, that process notices and stops it.
type devDatabase struct {
	url   string // of the superuser
	stdin io.Closer
	done  chan struct{}
	err   error // once it is done
}

// startDatabase starts PostgreSQL with its data in a directory. Without binaries it
// is downloaded, once.
func startDatabase(ctx context.Context, dir, binaries, password string) (*devDatabase, error) {
	cache, owned := "", []string{dir}
	if binaries == "" {
		var err error
		if cache, err = downloads(); err != nil {
			return nil, err
		}
		owned = append(owned, cache)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Not bound to ctx: it ends when its standard input does.
	cmd := exec.Command(self, "dev", "database", "--binaries", binaries, "--cache", cache, "--port", strconv.Itoa(port), dir) //nolint:gosec,noctx // this program itself
	cmd.Env = append(os.Environ(), "BELFRY_DEV_PASSWORD="+password, "HOME="+dir, "TMPDIR="+filepath.Join(dir, "log"))
	if err := ownedByOther(cmd, owned...); err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var trouble strings.Builder
	cmd.Stderr = &trouble
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the database: %w", err)
	}
	d := &devDatabase{stdin: stdin, done: make(chan struct{})}
	to := url.URL{Scheme: "postgres", User: url.UserPassword(devUser, password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/belfry", RawQuery: "sslmode=disable"}
	d.url = to.String()
	ready := make(chan bool, 1)
	go func() {
		_, err := bufio.NewReader(stdout).ReadString('\n')
		ready <- err == nil
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			d.err = fmt.Errorf("the database: %w: %s", err, strings.TrimSpace(trouble.String()))
		}
		close(d.done)
	}()
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), d.stop())
	case ok := <-ready:
		if !ok {
			return nil, d.stop()
		}
		return d, nil
	}
}

// stop lets the database end in order.
func (d *devDatabase) stop() error {
	_ = d.stdin.Close() // the sign to stop
	select {
	case <-d.done:
		return d.err
	case <-time.After(databaseEnd):
		return fmt.Errorf("the database has not stopped within %s", databaseEnd)
	}
}

// downloads is where a PostgreSQL that was downloaded is kept. What root downloads
// belongs to the user who runs it, who cannot look into root's home.
func downloads() (string, error) {
	dir := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	dir = filepath.Join(dir, "belfry-dev")
	return dir, os.MkdirAll(dir, 0o700)
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// newDevDatabase is the process that keeps the database.
func newDevDatabase() *cobra.Command {
	var binaries, cache string
	var port uint32
	cmd := &cobra.Command{
		Use: "database DIR", Short: "Keep the database of belfry dev until the standard input ends", Hidden: true, Args: wants(1, 1),
		Example: `  belfry dev database DIR # belfry dev calls it`,
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // meant for belfry dev, which tells when to stop
			logs := filepath.Join(args[0], "log")                        // PostgreSQL's; those of the last time are of no use any more
			if os.TempDir() != logs {
				return usagef("belfry dev calls this command; it is of no use by itself")
			}
			if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o700)); err != nil {
				return err
			}
			c, err := embed(cmd.Context(), args[0], binaries, cache)
			if err != nil {
				return err
			}
			db := embedded.NewDatabase(c.Port(port))
			if err := db.Start(); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), "ready")
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			return db.Stop()
		},
	}
	cmd.Flags().StringVar(&binaries, "binaries", "", "directory of PostgreSQL")
	cmd.Flags().StringVar(&cache, "cache", "", "directory of what was downloaded")
	cmd.Flags().Uint32Var(&port, "port", 0, "where it listens")
	return cmd
}

// embed says how the database is made and run.
func embed(ctx context.Context, dir, binaries, cache string) (embedded.Config, error) {
	c := embedded.DefaultConfig().Database("belfry").Username(devUser).Password(os.Getenv("BELFRY_DEV_PASSWORD")).
		DataPath(filepath.Join(dir, "data")).RuntimePath(filepath.Join(dir, "runtime")).CachePath(cache).
		BinariesPath(filepath.Join(cache, string(embedded.V18))).Version(embedded.V18).Encoding("UTF8").Locale("C").StartTimeout(time.Minute).Logger(io.Discard).
		StartParameters(map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "64MB", "max_connections": "100"})
	if binaries != "" {
		version, err := versionOf(ctx, binaries)
		if err != nil {
			return c, err
		}
		c = c.BinariesPath(binaries).Version(embedded.PostgresVersion(version))
	}
	return c, nil
}

var postgresVersion = regexp.MustCompile(`(\d+)\.\d+`)

// versionOf asks an installed PostgreSQL.
func versionOf(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "bin", "postgres"), "--version").Output() //nolint:gosec // the one that was found or named
	if err != nil {
		return "", fmt.Errorf("%s is no PostgreSQL that can be used: %w", dir, err)
	}
	m := postgresVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s is no PostgreSQL: it says %q", dir, out)
	}
	if major, _ := strconv.Atoi(string(m[1])); major < leastMajor {
		return "", fmt.Errorf("%s is PostgreSQL %s, and Belfry needs %d or newer", dir, m[0], leastMajor)
	}
	return string(m[0]), nil
}

// findPostgres looks where systems put PostgreSQL, and returns its directory and
// version, of the newest; none if there is none that is new enough.
func findPostgres(ctx context.Context) (dir, version string) {
	var dirs []string
	if program, err := exec.LookPath("pg_ctl"); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil {
			dirs = append(dirs, filepath.Dir(filepath.Dir(program)))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*", "/usr/pgsql-*", "/opt/homebrew/opt/postgresql@*", "/usr/local/opt/postgresql@*", "/usr/local/pgsql"} {
		found, _ := filepath.Glob(pattern) // the patterns are right
		dirs = append(dirs, found...)
	}
	newest := 0.0
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "bin", "initdb")); err != nil {
			continue // the client alone
		}
		v, err := versionOf(ctx, d)
		if n, _ := strconv.ParseFloat(v, 64); err == nil && n > newest {
			dir, version, newest = d, v, n
		}
	}
	return dir, version
}
