package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// login is what reaches a server. The file of belfry login holds one.
type login struct {
	Server string `yaml:"server"`
	Key    string `yaml:"key"`
	from   string // where the key was found
}

// remote is a server, and how its answers are printed.
type remote struct {
	*belfry.Client
	cmd    *cobra.Command
	out    io.Writer
	format string // table, json or yaml
	login
}

// remoteFlags are those of each command that talks to a server.
func remoteFlags(cmd *cobra.Command) *cobra.Command {
	f := cmd.PersistentFlags()
	f.String("server", "", "URL of a Belfry server (or BELFRY_SERVER, or belfry login)")
	f.String("key", "", "API key; others can see it in the list of processes: better BELFRY_KEY, or belfry login")
	f.StringP("output", "o", "table", "table, json or yaml")
	return cmd
}

// with connects a command to its server.
func with(do func(ctx context.Context, r *remote, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := connect(cmd, os.Getenv)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		err = r.explain(do(ctx, r, args), args)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.As(err, &told{}) {
			return errors.New("interrupted; what was asked last may have happened all the same")
		}
		return err
	}
}

func connect(cmd *cobra.Command, getenv func(string) string) (*remote, error) {
	f := cmd.Flags()
	format, _ := f.GetString("output")
	if !outputs[format] {
		return nil, usagef("-o %s: use table, json or yaml", format)
	}
	to, err := findLogin(f.Lookup("server").Value.String(), f.Lookup("key").Value.String(), getenv)
	if err != nil {
		return nil, err
	}
	c, err := belfry.New(to.Server, to.Key, belfry.UserAgent("belfry-cli/"+version()))
	if err != nil {
		return nil, usageError{err}
	}
	return &remote{Client: c, cmd: cmd, out: cmd.OutOrStdout(), format: format, login: to}, nil
}

// findLogin takes each of server and key from the flag, else the environment, else
// the file.
func findLogin(server, key string, getenv func(string) string) (login, error) {
	to := login{Server: first(server, getenv("BELFRY_SERVER")), Key: first(key, getenv("BELFRY_KEY")), from: "BELFRY_KEY"}
	if key != "" {
		to.from = "--key"
	}
	if to.Server != "" && to.Key != "" {
		return to, nil
	}
	name, err := loginFile(getenv)
	if err != nil {
		return to, err
	}
	text, err := os.ReadFile(name) //nolint:gosec // the user's own file
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return to, err
	}
	var saved login
	if err := yaml.Unmarshal(text, &saved); err != nil {
		return to, fmt.Errorf("%s cannot be read; belfry login makes it anew: %w", name, err)
	}
	// A key goes only to the server that it was saved for.
	if to.Server == "" || to.Server == saved.Server {
		to.Server = first(to.Server, saved.Server)
		if to.Key == "" {
			to.Key, to.from = saved.Key, name
		}
	}
	switch {
	case to.Server == "":
		return to, usagef("no server is named; use --server URL, BELFRY_SERVER or belfry login")
	case to.Key == "":
		return to, usagef("there is no key for %s; use BELFRY_KEY or belfry login", to.Server)
	}
	return to, nil
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// loginFile is ~/.config/belfry/config.yaml, on every system.
func loginFile(getenv func(string) string) (string, error) {
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("there is no home directory; use BELFRY_SERVER and BELFRY_KEY")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "belfry", "config.yaml"), nil
}

// jobPath and its like are where things are.
func jobPath(name string) string { return "/jobs/" + belfry.PathEscape(name) }
func runPath(id string) string   { return "/runs/" + belfry.PathEscape(id) }

// get reads something as the server sent it.
func (r *remote) get(ctx context.Context, path string, query url.Values) (raw []byte, err error) {
	err = r.Call(ctx, belfry.Request{Method: http.MethodGet, Path: path, Query: query}, &raw)
	return raw, err
}

// post asks for something.
func (r *remote) post(ctx context.Context, path string, body any) (raw []byte, err error) {
	err = r.Call(ctx, belfry.Request{Method: http.MethodPost, Path: path, Body: body}, &raw)
	return raw, err
}

// say prints a line for people; programs that asked for JSON or YAML get none.
func (r *remote) say(format string, args ...any) {
	if r.format == "table" {
		p := printer{w: r.out}
		p.line(format, args...)
	}
}

// note prints a line beside the output.
func (r *remote) note(format string, args ...any) {
	_, _ = fmt.Fprintln(r.cmd.ErrOrStderr(), cleanLines(strings.TrimRight(fmt.Sprintf(format, args...), "\n")))
}
