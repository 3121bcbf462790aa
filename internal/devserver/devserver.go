package devserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/privatefile"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/seal"
	belfry "github.com/belfry-dev/belfry/sdk/go"
	"github.com/belfry-dev/belfry/web"
)

const (
	serverRole   = "belfry_server" // the node's role, which must not own the tables
	drainTime    = 2 * time.Second
	readyTimeout = 30 * time.Second // for the node to answer
	// thisMachine is what targets may reach unless Options.Allow names more: programs under development listen there.
	thisMachine = "127.0.0.0/8,::1/128"
)

// Options of Run.
type Options struct {
	Data     string // directory to keep the data in; empty: a temporary one, removed at the end
	Listen   string // address of the API
	Echo     string // address of the target that prints
	Postgres string // directory of PostgreSQL, or "download"; empty: look for one, else download
	NoDemo   bool   // create no job
	Allow    string // what targets may reach beyond this machine, as targets.allow of a node; public: the internet
	Command  config.Command
	Program  string // how this program was called
	Version  string // of it
	Out      io.Writer
	Log      *slog.Logger // of the node
}

// Run starts everything and stops it in order when ctx ends, or when a part of it ends.
func Run(ctx context.Context, o Options) error {
	d := &devServer{Options: o, p: terminal.NewPrinter(o.Out)}
	return d.run(ctx)
}

type devServer struct {
	Options
	p       *terminal.Printer
	secrets secrets
	code    *app.LoginCode
}

// secrets are kept next to the data.
type secrets struct {
	Owner  string `yaml:"owner_password"`
	Server string `yaml:"server_password"`
	Key    string `yaml:"key"`
	Keyset string `yaml:"keyset"`
}

func (d *devServer) run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	dir, remove, err := d.directory()
	if err != nil {
		return err
	}
	defer remove()
	echoURL, stopEcho, err := startEcho(ctx, d.Echo, d.p) // before the database, which takes longer to start
	if err != nil {
		return err
	}
	defer stopEcho()
	if err := d.free(ctx); err != nil {
		return err
	}
	db, err := d.startDatabase(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.stop()) }()
	if err := d.prepare(ctx, dir, db.url); err != nil {
		return err
	}
	n, err := d.startNode(ctx, dir, db.url)
	if n != nil {
		defer func() { // runs before the database stops, because the node needs it
			stop()
			<-n.done
			err = errors.Join(err, n.err)
		}()
	}
	if err != nil {
		return err
	}
	if err := d.createDemo(ctx, echoURL); err != nil {
		return err
	}
	d.welcome(dir, echoURL)
	select {
	case <-ctx.Done():
		d.p.Line("\nstopping …")
		return nil
	case <-n.done:
		return errors.New("the node has ended")
	case <-db.done:
		return errors.New("the database has ended")
	}
}

// free returns an error if the address of the API is taken, before seconds go into starting a database.
func (d *devServer) free(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", d.Listen)
	if err != nil {
		return fmt.Errorf("listen for the API (another address: --listen): %w", err)
	}
	return l.Close()
}

// step runs one step of the start, and prints its name and how long it took.
func (d *devServer) step(name string, do func() error) error {
	began := clock.Elapsed()
	d.p.Part("%-40s", name+" …")
	err := do()
	if err != nil {
		d.p.Line("%s", terminal.Red.Render("failed"))
		return err
	}
	d.p.Line("%s", terminal.Faint.Render((clock.Elapsed() - began).Round(10*time.Millisecond).String()))
	return nil
}

// directory creates the directory of the data, and returns how to remove it.
func (d *devServer) directory() (dir string, remove func(), err error) {
	remove = func() {}
	if d.Data != "" {
		if dir, err = filepath.Abs(d.Data); err != nil {
			return "", nil, err
		}
		if err = os.MkdirAll(dir, 0o700); err == nil && lock(dir) != nil {
			err = fmt.Errorf("another belfry dev uses %s; stop it, or use another directory with --data", d.Data)
		}
	} else {
		dir, err = os.MkdirTemp("", "belfry-dev-")
		remove = func() { _ = os.RemoveAll(dir) }
	}
	if err == nil {
		// The database may run as another user, who must reach its directory. Secrets have stricter modes.
		err = os.Chmod(dir, 0o711) //nolint:gosec // see above
	}
	return dir, remove, err
}

func (d *devServer) startDatabase(ctx context.Context, dir string) (db *database, err error) {
	text, err := os.ReadFile(secretsFile(dir))
	switch {
	case err == nil:
		err = yaml.Unmarshal(text, &d.secrets)
	case errors.Is(err, os.ErrNotExist):
		d.secrets = secrets{Owner: rand.Text(), Server: rand.Text()}
		err = d.saveSecrets(dir)
	}
	if err != nil {
		return nil, err
	}
	binaries, what := d.Postgres, "PostgreSQL in "+d.Postgres
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
		db, err = startDatabase(ctx, data, binaries, d.secrets.Owner)
		return err
	})
	return db, err
}

func secretsFile(dir string) string { return filepath.Join(dir, "secrets.yaml") }

func (d *devServer) saveSecrets(dir string) error {
	text, err := yaml.Marshal(d.secrets)
	if err != nil {
		return err
	}
	return privatefile.Write(secretsFile(dir), text)
}

// trustClock confirms the clock of the database if it is in doubt. Database and node share the clock of this machine,
// so the only reason is that the data was last used long ago.
func trustClock(ctx context.Context, at app.Database) error {
	s, err := app.Clock(ctx, at.URL)
	if err == nil && s.InDoubt() {
		_, err = app.ConfirmClock(ctx, at)
	}
	return err
}

// prepare creates the schema, the node's role, a keyset and a key.
func (d *devServer) prepare(ctx context.Context, dir, ownerURL string) error {
	return d.step("schema, role and key", func() error {
		if _, err := app.Migrate(ctx, ownerURL, app.MigrateParams{All: true}); err != nil { // there is one node only
			return err
		}
		owner := app.Database{URL: ownerURL, Keyset: d.secrets.Keyset}
		if err := trustClock(ctx, owner); err != nil {
			return err
		}
		if err := app.MakeServerRole(ctx, ownerURL, serverRole, d.secrets.Server); err != nil {
			return err
		}
		var err error
		if d.secrets.Keyset == "" {
			if d.secrets.Keyset, err = newKeyset(); err != nil {
				return err
			}
			owner.Keyset = d.secrets.Keyset
		}
		if d.secrets.Key == "" {
			key := access.KeyParams{Name: "belfry dev", Role: access.Admin}
			if d.secrets.Key, err = app.CreateKey(ctx, owner, "default", key); err != nil {
				return err
			}
		}
		return d.saveSecrets(dir)
	})
}

func newKeyset() (string, error) {
	k, err := seal.New()
	if err != nil {
		return "", err
	}
	return k.Text()
}

// node is a running node.
type node struct {
	done chan struct{}
	err  error // valid once done is closed
}

// startNode starts a node and waits until it answers. With an error it still returns the node if it was
// started, so that the caller can wait for its end.
func (d *devServer) startNode(ctx context.Context, dir, ownerURL string) (*node, error) {
	to, err := url.Parse(ownerURL)
	if err != nil {
		return nil, err
	}
	to.User = url.UserPassword(serverRole, d.secrets.Server)
	d.code = app.NewLoginCode(d.secrets.Key)
	c := d.nodeConfig(to.String())
	if err := saveConfig(dir, c.Config); err != nil {
		return nil, err
	}
	n := &node{done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.err = app.Serve(ctx, c, d.Log)
	}()
	return n, d.step("node", func() error { return d.awaitNode(ctx, n) })
}

func (d *devServer) nodeConfig(databaseURL string) app.Config {
	c := app.Config{Config: config.Default(), Version: d.Version, NoPublicTargets: true, UI: web.Handler(web.Options{})}
	c.DatabaseURL, c.Listen, c.Name, c.Drain = databaseURL, d.Listen, "dev", drainTime
	c.LoginCode, c.Canary = d.code, false // no alert watches it
	c.Targets.Allow, c.Secrets.Keyset, c.Command = thisMachine, d.secrets.Keyset, d.Command
	if d.Allow != "" {
		c.Targets.Allow += "," + d.Allow
	}
	return c
}

// saveConfig writes the settings of the node to a file, for the commands that need them.
func saveConfig(dir string, c config.Config) error {
	text, err := yaml.Marshal(map[string]any{
		"database_url": c.DatabaseURL, "listen": c.Listen, "name": c.Name, "drain": c.Drain.String(),
		"canary":  c.Canary,
		"targets": map[string]string{"allow": c.Targets.Allow},
		"secrets": map[string]string{"keyset": c.Secrets.Keyset},
	})
	if err != nil {
		return err
	}
	return privatefile.Write(configFile(dir), text)
}

func configFile(dir string) string { return filepath.Join(dir, "belfry.yaml") }

func (d *devServer) awaitNode(ctx context.Context, n *node) error {
	client, err := d.client()
	if err != nil {
		return err
	}
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = client.Call(ctx, belfry.Request{Method: http.MethodGet, Path: "/self"}, nil); err == nil {
			return nil
		}
		select {
		case <-n.done:
			return errors.New("it has ended") // run adds the node's own error
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("the node does not answer: %w", err)
		case <-tick.C:
		}
	}
}

func (d *devServer) client() (*belfry.Client, error) {
	return belfry.New("http://"+d.Listen, d.secrets.Key)
}

// createDemo creates a job whose runs are visible within seconds.
func (d *devServer) createDemo(ctx context.Context, echoURL string) error {
	if d.NoDemo {
		return nil
	}
	client, err := d.client()
	if err != nil {
		return err
	}
	_, err = client.Jobs.Put(ctx, belfry.JobInput{
		Name: "demo", Schedule: belfry.Every(10 * time.Second), Payload: map[string]string{"hello": "world"},
		Target: belfry.HTTP(echoURL + "/demo"),
	})
	return err
}

func (d *devServer) welcome(dir, echoURL string) {
	ends := "Ctrl-C stops it and removes its data"
	if d.Data != "" {
		ends = "Ctrl-C stops it; its data stays in " + d.Data
	}
	d.p.Line("\n%s  %s\n", terminal.Green.Render("Belfry is running."), terminal.Faint.Render(ends))
	base := "http://" + d.Listen
	d.p.Line("  %s\n", base+"/ui/login#code="+d.code.Text())
	d.p.Line("  %s\n", terminal.Faint.Render("Open this link to see it: it logs you in, once and within 10 minutes. "+
		"Later, open\n  "+base+"/ui/ and log in with the key."))
	_ = terminal.WriteFields(d.Out, []terminal.Field{
		{"  API", base + "/api/v1"},
		{"  key", d.secrets.Key},
		{"  echo", echoURL + terminal.Faint.Render("  prints below what it receives")},
		{"  config", configFile(dir) + terminal.Faint.Render("  for belfry doctor --config")},
	})
	d.p.Line("\n  In another terminal:\n")
	d.p.Line("    export BELFRY_SERVER=http://%s BELFRY_KEY=%s", d.Listen, d.secrets.Key)
	if !d.NoDemo {
		d.p.Line("    %s job get demo", d.Program)
	}
	d.p.Line("    %s job create hello --every 5s --url %s/hello --payload '{\"n\":1}'\n", d.Program, echoURL)
}
