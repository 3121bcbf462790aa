package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

type self struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Role      string `json:"role"`
}

func newLogin() *cobra.Command {
	return remoteFlags(&cobra.Command{
		Use: "login", Short: "Save a server and a key for the other commands", Args: wants(0, 0),
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
	to := login{
		Server: first(f.Lookup("server").Value.String(), getenv("BELFRY_SERVER")),
		Key:    first(f.Lookup("key").Value.String(), getenv("BELFRY_KEY")),
		from:   "you",
	}
	if to.Server == "" {
		return usagef("which server? belfry login --server https://belfry.example.com")
	}
	if to.Key == "" {
		var err error
		if to.Key, err = askKey(cmd); err != nil {
			return err
		}
	}
	c, err := belfry.New(to.Server, to.Key)
	if err != nil {
		return usageError{err}
	}
	r := &remote{Client: c, cmd: cmd, out: cmd.OutOrStdout(), format: "table", login: to}
	var who self
	if err := c.Call(cmd.Context(), belfry.Request{Method: http.MethodGet, Path: "/self"}, &who); err != nil {
		return r.explain(err, nil)
	}
	name, err := loginFile(getenv)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(to)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := writePrivate(name, text); err != nil {
		return err
	}
	r.say("%s to %s: key %s, role %s, namespace %s", green.Render("Logged in"), to.Server, who.Name, who.Role, who.Namespace)
	r.say("%s", faint.Render("saved in "+name))
	return nil
}

// writePrivate replaces a file whole, and nobody else can read it at any moment.
func writePrivate(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".config-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already if all went well
	if _, err := f.Write(text); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// askKey reads a key, without showing it on a terminal.
func askKey(cmd *cobra.Command) (string, error) {
	if f, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(f.Fd()) {
		_, _ = fmt.Fprint(cmd.ErrOrStderr(), "Key: ")
		secret, err := term.ReadPassword(f.Fd())
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return strings.TrimSpace(string(secret)), err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if line = strings.TrimSpace(line); line == "" {
		return "", usagef("no key was given; write it to the standard input (%v)", err)
	}
	return line, nil
}
