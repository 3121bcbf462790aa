package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/telemetry"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

const (
	devRole  = "belfry_server" // of the node, which must not own the tables
	devDrain = 2 * time.Second
	// devAllow is this machine and the networks of containers on it: what is being
	// developed listens there.
	devAllow = "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"
	devReady = 30 * time.Second // for the node to answer
)

type devFlags struct {
	data, listen, echo, postgres, logLevel string
	noDemo                                 bool
}

func newDev() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use: "dev", Short: "Run all of Belfry on this machine, to try it", Args: wants(0, 0),
		Long: `Start a PostgreSQL of its own, a node with the API, a target that prints what it
receives, and a job that calls it every 10 seconds. It prints a key, listens on
this machine alone, and needs nothing to be installed: a PostgreSQL that is there
is used, else one is downloaded, once.

Ctrl-C stops it all. Without --data nothing is left behind.`,
		Example: `  belfry dev
  belfry dev --data ./belfry-data
  belfry dev --listen 127.0.0.1:9000 --no-demo`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A terminal that is closed and a pipe that nobody reads end it in order too.
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
			defer stop()
			d := &dev{devFlags: f, cmd: cmd, p: &printer{w: cmd.OutOrStdout()}}
			return d.run(ctx)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.data, "data", "", "keep the data in this directory (default: a temporary one, removed at the end)")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8420", "address of the API")
	fl.StringVar(&f.echo, "echo", "127.0.0.1:8421", "address of the target that prints")
	fl.StringVar(&f.postgres, "postgres", "", "directory of PostgreSQL, which has bin/postgres, or download (default: look for one, else download)")
	fl.StringVar(&f.logLevel, "log-level", "warn", "of the node's log: debug, info, warn or error")
	fl.BoolVar(&f.noDemo, "no-demo", false, "make no job")
	cmd.AddCommand(newDevDatabase())
	return cmd
}

// dev is all of Belfry, while it runs.
type dev struct {
	devFlags
	cmd    *cobra.Command
	p      *printer
	secret devSecrets
}

// devSecrets are kept beside the data.
type devSecrets struct {
	Owner  string `yaml:"owner_password"`
	Server string `yaml:"server_password"`
	Key    string `yaml:"key"`
	Keyset string `yaml:"keyset"`
}

func (d *dev) run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	dir, remove, err := d.directory()
	if err != nil {
		return err
	}
	defer remove()
	db, err := d.database(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.stop()) }()
	if err := d.prepare(ctx, dir, db.url); err != nil {
		return err
	}
	echoURL, stopEcho, err := echo(ctx, d.echo, d.p)
	if err != nil {
		return err
	}
	defer stopEcho()
	n, err := d.node(ctx, db.url)
	if n != nil {
		defer func() { // before the database, which it needs
			stop()
			<-n.done
			err = errors.Join(err, n.err)
		}()
	}
	if err != nil {
		return err
	}
	if err := d.demo(ctx, echoURL); err != nil {
		return err
	}
	d.welcome(echoURL)
	select {
	case <-ctx.Done():
		d.p.line("\nstopping …")
		return nil
	case <-n.done:
		return errors.New("the node has ended")
	case <-db.done:
		return errors.New("the database has ended")
	}
}

// step does something that takes a moment, and says so.
func (d *dev) step(name string, do func() error) error {
	began := clock.Elapsed()
	_, _ = fmt.Fprintf(d.p.w, "%-40s", name+" …") // progress is a courtesy
	err := do()
	if err != nil {
		d.p.line("%s", red.Render("failed"))
		return err
	}
	d.p.line("%s", faint.Render((clock.Elapsed() - began).Round(10*time.Millisecond).String()))
	return nil
}

// directory is where all is kept, and how it is removed.
func (d *dev) directory() (dir string, remove func(), err error) {
	remove = func() {}
	if d.data != "" {
		if dir, err = filepath.Abs(d.data); err != nil {
			return "", nil, err
		}
		err = os.MkdirAll(dir, 0o700)
	} else {
		dir, err = os.MkdirTemp("", "belfry-dev-")
		remove = func() { _ = os.RemoveAll(dir) }
	}
	if err == nil {
		// The database may belong to another user, who must reach it; what is secret has modes of its own.
		err = os.Chmod(dir, 0o711) //nolint:gosec // see above
	}
	return dir, remove, err
}

func (d *dev) database(ctx context.Context, dir string) (db *devDatabase, err error) {
	secrets := filepath.Join(dir, "secrets.yaml")
	text, err := os.ReadFile(secrets) //nolint:gosec // belfry dev's own
	switch {
	case err == nil:
		err = yaml.Unmarshal(text, &d.secret)
	case errors.Is(err, os.ErrNotExist):
		d.secret = devSecrets{Owner: rand.Text(), Server: rand.Text()}
		err = d.keep(dir)
	}
	if err != nil {
		return nil, err
	}
	binaries, what := d.postgres, "PostgreSQL in "+d.postgres
	if binaries == "" {
		var version string
		binaries, version = findPostgres(ctx)
		what = "PostgreSQL " + version
	}
	if binaries == "" || binaries == "download" {
		binaries, what = "", "PostgreSQL 18, downloaded once"
	}
	data := filepath.Join(dir, "postgres")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	err = d.step(what, func() error {
		db, err = startDatabase(ctx, data, binaries, d.secret.Owner)
		return err
	})
	return db, err
}

func (d *dev) keep(dir string) error {
	text, err := yaml.Marshal(d.secret)
	if err != nil {
		return err
	}
	return writePrivate(filepath.Join(dir, "secrets.yaml"), text)
}

// prepare makes the schema, the role of the node and a key.
func (d *dev) prepare(ctx context.Context, dir, owner string) error {
	return d.step("schema, role and key", func() error {
		if _, err := app.Migrate(ctx, owner); err != nil {
			return err
		}
		if err := app.MakeServerRole(ctx, owner, devRole, d.secret.Server); err != nil {
			return err
		}
		var err error
		if d.secret.Keyset == "" {
			if d.secret.Keyset, err = newKeyset(); err != nil {
				return err
			}
		}
		if d.secret.Key != "" {
			return d.keep(dir)
		}
		if d.secret.Key, err = app.CreateKey(ctx, owner, "default", "belfry dev", access.Admin); err != nil {
			return err
		}
		return d.keep(dir)
	})
}

// devNode is a node that runs.
type devNode struct {
	done chan struct{}
	err  error // once it is done
}

// node starts a node and waits until it answers. It is returned if it was started.
func (d *dev) node(ctx context.Context, owner string) (*devNode, error) {
	to, err := url.Parse(owner)
	if err != nil {
		return nil, err
	}
	to.User = url.UserPassword(devRole, d.secret.Server)
	log, err := telemetry.NewLog(d.cmd.ErrOrStderr(), d.logLevel, "text")
	if err != nil {
		return nil, usageError{err}
	}
	c := config.Default()
	c.DatabaseURL, c.Listen, c.Name, c.Drain = to.String(), d.listen, "dev", devDrain
	c.Targets.Allow, c.Secrets.Keyset = devAllow, d.secret.Keyset
	n := &devNode{done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.err = app.Serve(ctx, app.Config{Config: c, Version: version()}, log)
	}()
	return n, d.step("node", func() error {
		client, err := belfry.New("http://"+d.listen, d.secret.Key)
		if err != nil {
			return err
		}
		deadline := time.NewTimer(devReady)
		defer deadline.Stop()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			if err = client.Call(ctx, belfry.Request{Method: http.MethodGet, Path: "/self"}, nil); err == nil {
				return nil
			}
			select {
			case <-n.done:
				return errors.New("it has ended") // and says why
			case <-ctx.Done():
				return ctx.Err()
			case <-deadline.C:
				return fmt.Errorf("the node does not answer: %w", err)
			case <-tick.C:
			}
		}
	})
}

// demo makes a job that is seen at once.
func (d *dev) demo(ctx context.Context, echoURL string) error {
	if d.noDemo {
		return nil
	}
	client, err := belfry.New("http://"+d.listen, d.secret.Key)
	if err != nil {
		return err
	}
	_, err = client.ReplaceJobWithResponse(ctx, "demo", nil, belfry.JobInput{
		Name: "demo", Schedule: belfry.Every(10 * time.Second), Payload: map[string]string{"hello": "world"},
		Target: belfry.Target{Kind: "http", Config: map[string]string{"url": echoURL + "/demo"}},
	})
	return err
}

func (d *dev) welcome(echoURL string) {
	ends := "Ctrl-C stops it and removes its data"
	if d.data != "" {
		ends = "Ctrl-C stops it; its data stays in " + d.data
	}
	d.p.line("\n%s  %s\n", green.Render("Belfry is running."), faint.Render(ends))
	_ = writeFields(d.p.w, []field{
		{"  API", "http://" + d.listen + "/api/v1"},
		{"  key", d.secret.Key},
		{"  echo", echoURL + faint.Render("  prints below what it receives")},
	})
	d.p.line("\n  In another terminal:\n")
	d.p.line("    export BELFRY_SERVER=http://%s BELFRY_KEY=%s", d.listen, d.secret.Key)
	if !d.noDemo {
		d.p.line("    belfry job get demo")
	}
	d.p.line("    belfry job create hello --every 5s --url %s/hello --payload '{\"n\":1}'\n", echoURL)
}
