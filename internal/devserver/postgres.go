package devserver

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
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

const (
	superuser        = "belfry"
	minMajor         = 15
	databaseStop     = 20 * time.Second // for a database to stop
	databaseStart    = time.Minute      // for a database to start
	superuserSetting = "BELFRY_DEV_PASSWORD"
)

// DatabaseCommand is the subcommand of belfry dev that calls RunDatabase.
const DatabaseCommand = "database"

// ErrCalledByHand means that RunDatabase was not started by Run.
var ErrCalledByHand = errors.New("belfry dev calls this command; it is of no use by itself")

// database is a running PostgreSQL, in a process of its own.
type database struct {
	url   string // of the superuser
	stdin io.Closer
	done  chan struct{}
	err   error // valid once done is closed
}

// startDatabase starts PostgreSQL with its data in a directory. Without binaries, PostgreSQL is
// downloaded once.
func startDatabase(ctx context.Context, dir, binaries, password string) (*database, error) {
	cache, owned := "", []string{dir}
	if binaries == "" {
		var err error
		if cache, err = downloadDir(); err != nil {
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
	// The command is not bound to ctx: it ends when its standard input does.
	cmd := exec.Command(self, "dev", DatabaseCommand, //nolint:gosec,noctx // this program itself
		"--binaries", binaries, "--cache", cache, "--port", strconv.Itoa(port), dir)
	cmd.Env = append(os.Environ(), superuserSetting+"="+password, "HOME="+dir, "TMPDIR="+logDir(dir))
	if err := detach(cmd, owned...); err != nil {
		return nil, err
	}
	to := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, password), Path: "/belfry", RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
	}
	return launch(ctx, cmd, to.String())
}

// launch starts the process of a database and waits until the database is ready.
func launch(ctx context.Context, cmd *exec.Cmd, databaseURL string) (*database, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the database: %w", err)
	}
	d := &database{url: databaseURL, stdin: stdin, done: make(chan struct{})}
	ready := make(chan bool, 1)
	go func() {
		_, err := bufio.NewReader(stdout).ReadString('\n')
		ready <- err == nil
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			d.err = fmt.Errorf("the database: %w: %s", err, strings.TrimSpace(stderr.String()))
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

// stop shuts the database down.
func (d *database) stop() error {
	_ = d.stdin.Close() // makes the process stop
	select {
	case <-d.done:
		return d.err
	case <-time.After(databaseStop):
		return fmt.Errorf("the database has not stopped within %s", databaseStop)
	}
}

// downloadDir is the directory of a downloaded PostgreSQL. For root it is not in root's home, because
// PostgreSQL runs as another user, who cannot read that.
func downloadDir() (string, error) {
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

// DatabaseOptions of RunDatabase.
type DatabaseOptions struct {
	Dir      string // data, logs and sockets
	Binaries string // directory of PostgreSQL; empty: download it
	Cache    string // directory of downloads
	Port     uint32
}

// logDir is the directory of PostgreSQL's own log, and the TMPDIR of its process.
func logDir(dir string) string { return filepath.Join(dir, "log") }

// RunDatabase runs PostgreSQL until stdin ends. It writes a line to stdout when the database is ready.
func RunDatabase(ctx context.Context, o DatabaseOptions, stdin io.Reader, stdout io.Writer) error {
	logs := logDir(o.Dir)
	if os.TempDir() != logs {
		return ErrCalledByHand
	}
	if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o700)); err != nil {
		return err
	}
	c, err := embed(ctx, o)
	if err != nil {
		return err
	}
	db := embedded.NewDatabase(c)
	if err := db.Start(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(stdout, "ready")
	_, _ = io.Copy(io.Discard, stdin)
	return db.Stop()
}

// embed returns how to create and run the database.
func embed(ctx context.Context, o DatabaseOptions) (embedded.Config, error) {
	c := embedded.DefaultConfig().
		Database("belfry").Username(superuser).Password(os.Getenv(superuserSetting)).
		DataPath(filepath.Join(o.Dir, "data")).RuntimePath(filepath.Join(o.Dir, "runtime")).CachePath(o.Cache).
		BinariesPath(filepath.Join(o.Cache, string(embedded.V18))).Version(embedded.V18).
		Encoding("UTF8").Locale("C").Port(o.Port).StartTimeout(databaseStart).Logger(io.Discard).
		StartParameters(map[string]string{
			"listen_addresses": "127.0.0.1", "unix_socket_directories": "",
			"shared_buffers": "64MB", "max_connections": "100",
		})
	if o.Binaries != "" {
		version, err := versionOf(ctx, o.Binaries)
		if err != nil {
			return c, err
		}
		c = c.BinariesPath(o.Binaries).Version(embedded.PostgresVersion(version))
	}
	return c, nil
}

var postgresVersion = regexp.MustCompile(`(\d+)\.\d+`)

// postgresDirs are where systems install PostgreSQL.
var postgresDirs = []string{
	"/usr/lib/postgresql/*", "/usr/pgsql-*", "/usr/local/pgsql",
	"/opt/homebrew/opt/postgresql@*", "/usr/local/opt/postgresql@*",
}

// versionOf returns the version of an installed PostgreSQL. It must be new enough.
func versionOf(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "bin", "postgres")
	out, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // named by the user, or found
	if err != nil {
		return "", fmt.Errorf("%s is no PostgreSQL that can be used: %w", dir, err)
	}
	m := postgresVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s is no PostgreSQL: it says %q", dir, out)
	}
	if major, _ := strconv.Atoi(string(m[1])); major < minMajor {
		return "", fmt.Errorf("%s is PostgreSQL %s, and Belfry needs %d or newer", dir, m[0], minMajor)
	}
	return string(m[0]), nil
}

// findPostgres searches the usual places for PostgreSQL and returns the directory and version of the
// newest one. It returns "" if none is new enough.
func findPostgres(ctx context.Context) (dir, version string) {
	var dirs []string
	if program, err := exec.LookPath("pg_ctl"); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil {
			dirs = append(dirs, filepath.Dir(filepath.Dir(program)))
		}
	}
	for _, pattern := range postgresDirs {
		found, _ := filepath.Glob(pattern) // fails only for a malformed pattern
		dirs = append(dirs, found...)
	}
	newest := 0.0
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "bin", "initdb")); err != nil {
			continue // only the client is installed
		}
		v, err := versionOf(ctx, d)
		if n, _ := strconv.ParseFloat(v, 64); err == nil && n > newest {
			dir, version, newest = d, v, n
		}
	}
	return dir, version
}
