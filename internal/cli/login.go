package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// self is what the server says about a key.
type self struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Role      string `json:"role"`
}

func newLogin() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "login", Short: "Save a server and a key for the other commands", Args: usage.Args(0, 0),
		Long: `Ask for a key, check it with the server, and save both in
~/.config/belfry/config.yaml, which only you can read. BELFRY_SERVER and
BELFRY_KEY, and the flags, win over the file.`,
		Example: `  belfry login --server https://belfry.example.com
  belfry login --server http://localhost:8420 <key.txt`,
		RunE: func(cmd *cobra.Command, _ []string) error { return saveLogin(cmd, os.Getenv) },
	})
}

func saveLogin(cmd *cobra.Command, getenv func(string) string) error {
	f := cmd.Flags()
	to := remote.Login{
		Server: cmp.Or(f.Lookup("server").Value.String(), getenv("BELFRY_SERVER")),
		Key:    cmp.Or(f.Lookup("key").Value.String(), getenv("BELFRY_KEY")),
		From:   "you", Insecure: remote.AllowsInsecure(cmd, getenv),
	}
	if to.Server == "" {
		return usage.Errorf("which server? belfry login --server https://belfry.example.com")
	}
	if to.Key == "" {
		var err error
		if to.Key, err = askKey(cmd); err != nil {
			return err
		}
	}
	r, err := remote.New(cmd, to)
	if err != nil {
		return err
	}
	var who self
	if err := r.Call(cmd.Context(), belfry.Request{Method: http.MethodGet, Path: "/self"}, &who); err != nil {
		return r.Explain(err, nil)
	}
	name, err := to.Save(getenv)
	if err != nil {
		return err
	}
	r.Line("%s to %s: key %s, role %s, namespace %s",
		terminal.Green.Render("Logged in"), to.Server, who.Name, who.Role, who.Namespace)
	r.Line("%s", terminal.Faint.Render("saved in "+name))
	return nil
}

// askKey reads a key. On a terminal it does not show it.
func askKey(cmd *cobra.Command) (string, error) {
	if f, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(f.Fd()) {
		_, _ = fmt.Fprint(cmd.ErrOrStderr(), "Key: ")
		secret, err := term.ReadPassword(f.Fd())
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return strings.TrimSpace(string(secret)), err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if line = strings.TrimSpace(line); line == "" {
		return "", usage.Errorf("no key was given; write it to the standard input (%v)", err)
	}
	return line, nil
}
