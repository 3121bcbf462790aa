package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// Server is the server of one command, and how its responses are printed.
type Server struct {
	*belfry.Client
	Cmd    *cobra.Command
	Out    io.Writer
	format string // one of Outputs
	login  Login
}

// Outputs are the values of -o of client commands.
var Outputs = []string{usage.Table, outputWide, outputName, "json", "yaml"}

const (
	outputWide = "wide" // a table with all columns, however wide
	outputName = "name" // names or ids, one per line
)

// Flags adds the flags of each command that talks to a server.
func Flags(cmd *cobra.Command) *cobra.Command {
	f := cmd.PersistentFlags()
	f.String("server", "", "URL of a Belfry server (or BELFRY_SERVER, or belfry login)")
	f.String("key", "", "API key; other users of this machine can see it, so prefer BELFRY_KEY or belfry login")
	f.Bool("insecure", false, "send the key to another machine without TLS (or BELFRY_INSECURE=true)")
	f.StringP("output", "o", usage.Table, "table, wide, name, json or yaml")
	return cmd
}

// Run returns a RunE that connects the command to its server first. Ctrl-C cancels the context.
func Run(do func(ctx context.Context, r *Server, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := Connect(cmd, os.Getenv)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		named, err := r.resolve(ctx, args)
		if err == nil {
			err = do(ctx, r, named)
		}
		err = r.Explain(err, args)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) && !isExplained(err) {
			return errors.New("interrupted; what was asked last may have happened all the same")
		}
		return err
	}
}

// Connect finds the server and the key of a command. It sends no request.
func Connect(cmd *cobra.Command, getenv func(string) string) (*Server, error) {
	f := cmd.Flags()
	format, _ := f.GetString("output")
	if !slices.Contains(Outputs, format) {
		return nil, usage.Errorf("-o %s: use %s", format, usage.Either(Outputs))
	}
	login, err := FindLogin(f.Lookup("server").Value.String(), f.Lookup("key").Value.String(), getenv)
	if err != nil {
		return nil, err
	}
	login.Insecure = login.Insecure || AllowsInsecure(cmd, getenv)
	r, err := New(cmd, login)
	if err != nil {
		return nil, err
	}
	r.format = format
	return r, nil
}

// AllowsInsecure reports whether a flag or a variable allows to send a key over a network without TLS.
func AllowsInsecure(cmd *cobra.Command, getenv func(string) string) bool {
	allowed, _ := cmd.Flags().GetBool("insecure")
	return allowed || getenv("BELFRY_INSECURE") == "true"
}

// New returns the server of a login. It prints for people.
func New(cmd *cobra.Command, login Login) (*Server, error) {
	opts := []belfry.Option{belfry.UserAgent("belfry-cli/" + cmd.Root().Version)}
	if login.Insecure {
		opts = append(opts, belfry.Insecure())
	}
	c, err := belfry.New(login.Server, login.Key, opts...)
	if errors.Is(err, belfry.ErrInsecure) {
		return nil, usage.Errorf("%s is on another machine, and http would send the key to it in clear text; use https, or "+
			"--insecure if something else protects the connection", login.Server)
	}
	if err != nil {
		return nil, usage.Wrap(err)
	}
	return &Server{Client: c, Cmd: cmd, Out: cmd.OutOrStdout(), format: usage.Table, login: login}, nil
}

// URL returns the URL of the server.
func (r *Server) URL() string { return r.login.Server }

// JobPath returns the path of a job in the API.
func JobPath(name string) string { return "/jobs/" + belfry.PathEscape(name) }

// RunPath returns the path of a run in the API.
func RunPath(id string) string { return "/runs/" + belfry.PathEscape(id) }

// Get returns a response as the server sent it.
func (r *Server) Get(ctx context.Context, path string, query url.Values) (raw []byte, err error) {
	err = r.Call(ctx, belfry.Request{Method: http.MethodGet, Path: path, Query: query}, &raw)
	return raw, err
}

// Post sends a request and returns the response as the server sent it.
func (r *Server) Post(ctx context.Context, path string, body any) (raw []byte, err error) {
	err = r.Call(ctx, belfry.Request{Method: http.MethodPost, Path: path, Body: body}, &raw)
	return raw, err
}

// Delete deletes something.
func (r *Server) Delete(ctx context.Context, path string) error {
	return r.Call(ctx, belfry.Request{Method: http.MethodDelete, Path: path}, nil)
}

// ForPeople reports whether the output is for people, not for a program.
func (r *Server) ForPeople() bool { return r.format == usage.Table || r.format == outputWide }

// Show prints a response: as the user asked for programs, else by calling people.
func (r *Server) Show(raw []byte, people func() error) error {
	return r.ShowNamed(raw, raw, "name", people)
}

// ShowNamed is Show for a response whose names are a field of other objects.
func (r *Server) ShowNamed(raw, objects []byte, field string, people func() error) error {
	switch {
	case r.ForPeople():
		return people()
	case r.format == outputName:
		return r.printNames(objects, field)
	}
	return terminal.WriteData(r.Out, r.format, raw)
}

// printNames prints a field of an object or of each object of an array, one per line. An object without it is
// printed by its id.
func (r *Server) printNames(raw []byte, field string) error {
	var items []map[string]any
	if json.Unmarshal(raw, &items) != nil {
		items = make([]map[string]any, 1)
		if err := json.Unmarshal(raw, &items[0]); err != nil {
			return err
		}
	}
	p := terminal.NewPrinter(r.Out)
	for _, item := range items {
		for _, name := range []string{field, "id", "run"} {
			if value, ok := item[name]; ok {
				p.Line("%s", terminal.Clean(fmt.Sprint(value)))
				break
			}
		}
	}
	return p.Err()
}

// Pause waits for a time, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// ShowDone prints that something was done to what the user named, such as "paused report".
func (r *Server) ShowDone(raw []byte, done, name string) error {
	return r.Show(raw, func() error {
		r.Line("%s %s", done, terminal.Clean(name))
		return nil
	})
}

// Line prints a line for people, and nothing for programs.
func (r *Server) Line(format string, args ...any) {
	if r.ForPeople() {
		terminal.NewPrinter(r.Out).Line(format, args...)
	}
}

// Confirm asks whether to do what cannot be undone. Without a terminal there is no one to ask, and nothing is done.
func (r *Server) Confirm(what string) error {
	in := r.Cmd.InOrStdin()
	if f, ok := in.(*os.File); !ok || !term.IsTerminal(f.Fd()) {
		return usage.Errorf("this would %s; nothing was changed. Repeat with --yes to do it", what)
	}
	_, _ = fmt.Fprintf(r.Cmd.ErrOrStderr(), "This will %s. Continue? [y/N] ", what)
	line, _ := bufio.NewReader(in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return usage.Errorf("nothing was changed")
	}
	return nil
}

// Note prints a line to the error output, for people and programs.
func (r *Server) Note(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	_, _ = fmt.Fprintln(r.Cmd.ErrOrStderr(), terminal.CleanLines(line))
}
