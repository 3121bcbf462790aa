package remote

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/cli/privatefile"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// Login is a server and a key for it. belfry login saves one in a file.
type Login struct {
	Server string `yaml:"server"`
	Key    string `yaml:"key"`
	// Insecure allows a server on another machine without TLS.
	Insecure bool   `yaml:"insecure,omitempty"`
	From     string `yaml:"-"` // where the key was found, for error messages
}

// FindLogin takes the server and the key each from the flag, else from the environment, else from the
// file of belfry login.
func FindLogin(server, key string, getenv func(string) string) (Login, error) {
	to := Login{
		Server: cmp.Or(server, getenv("BELFRY_SERVER")),
		Key:    cmp.Or(key, getenv("BELFRY_KEY")),
		From:   "BELFRY_KEY",
	}
	if key != "" {
		to.From = "--key"
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
	var saved Login
	if err := yaml.Unmarshal(text, &saved); err != nil {
		return to, fmt.Errorf("%s cannot be read; belfry login writes it again: %w", name, err)
	}
	// Send a saved key only to the server that it was saved for.
	if to.Server == "" || to.Server == saved.Server {
		to.Server, to.Insecure = cmp.Or(to.Server, saved.Server), saved.Insecure
		if to.Key == "" {
			to.Key, to.From = saved.Key, name
		}
	}
	switch {
	case to.Server == "":
		return to, usage.Errorf("no server is named; use --server URL, BELFRY_SERVER or belfry login")
	case to.Key == "":
		return to, usage.Errorf("there is no key for %s; use BELFRY_KEY or belfry login", to.Server)
	}
	return to, nil
}

// Save writes the login to the file and returns its name.
func (l Login) Save(getenv func(string) string) (name string, err error) {
	if name, err = loginFile(getenv); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(l)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	return name, privatefile.Write(name, text)
}

// loginFile returns ~/.config/belfry/config.yaml, on every system.
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
