package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"

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
	format string // table, json or yaml
	login  Login
}

// Flags adds the flags of each command that talks to a server.
func Flags(cmd *cobra.Command) *cobra.Command {
	f := cmd.PersistentFlags()
	f.String("server", "", "URL of a Belfry server (or BELFRY_SERVER, or belfry login)")
	f.String("key", "", "API key; others can see it in the list of processes: better BELFRY_KEY, or belfry login")
	usage.OutputFlag(f)
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
		err = r.Explain(do(ctx, r, args), args)
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
	if err := usage.CheckOutput(format); err != nil {
		return nil, err
	}
	login, err := FindLogin(f.Lookup("server").Value.String(), f.Lookup("key").Value.String(), getenv)
	if err != nil {
		return nil, err
	}
	r, err := New(cmd, login)
	if err != nil {
		return nil, err
	}
	r.format = format
	return r, nil
}

// New returns the server of a login. It prints for people.
func New(cmd *cobra.Command, login Login) (*Server, error) {
	c, err := belfry.New(login.Server, login.Key, belfry.UserAgent("belfry-cli/"+cmd.Root().Version))
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

// ForPeople reports whether the output is for people, not JSON or YAML for a program.
func (r *Server) ForPeople() bool { return r.format == usage.Table }

// Show prints a response: as JSON or YAML if the user asked for it, else by calling people.
func (r *Server) Show(raw []byte, people func() error) error {
	if r.ForPeople() {
		return people()
	}
	return terminal.WriteData(r.Out, r.format, raw)
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

// Note prints a line to the error output, for people and programs.
func (r *Server) Note(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	_, _ = fmt.Fprintln(r.Cmd.ErrOrStderr(), terminal.CleanLines(line))
}
