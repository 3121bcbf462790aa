package admin

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// versionTimeout bounds the request for the server's version, which is a convenience.
const versionTimeout = 3 * time.Second

type versionView struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`

	Server        string `json:"server,omitempty"`
	ServerVersion string `json:"server_version,omitempty"`
	ServerError   string `json:"server_error,omitempty"`
}

func newVersion() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "version", Short: "Print the version of this program and of the server", Args: usage.Args(0, 0),
		Long: `Print the version of this program, the commit and the Go version that it was built
with, and the version of the server if you are logged in to one.`,
		Example: `  belfry version
  belfry version -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionView{
				Version: cmd.Root().Version, Commit: commit(), Go: runtime.Version(),
				System: runtime.GOOS + "/" + runtime.GOARCH,
			}
			format, _ := cmd.Flags().GetString("output")
			v.askServer(cmd)
			if format == "json" || format == "yaml" {
				return terminal.WriteValue(cmd.OutOrStdout(), format, v)
			}
			server := ""
			if v.Server != "" {
				server = terminal.Clean(v.Server + ": " + v.ServerVersion + v.ServerError)
			}
			return terminal.WriteFields(cmd.OutOrStdout(), []terminal.Field{
				{"version", v.Version}, {"commit", v.Commit}, {"go", v.Go}, {"system", v.System}, {"server", server},
			})
		},
	})
}

// askServer adds the server's version. Without a login there is no server to ask.
func (v *versionView) askServer(cmd *cobra.Command) {
	r, err := remote.Connect(cmd, os.Getenv)
	if err != nil {
		return
	}
	v.Server = r.URL()
	ctx, cancel := context.WithTimeout(cmd.Context(), versionTimeout)
	defer cancel()
	raw, err := r.Get(ctx, "/cluster", nil)
	if err == nil {
		var server struct {
			Version string `json:"version"`
		}
		err = json.Unmarshal(raw, &server)
		v.ServerVersion = server.Version
	}
	if err != nil {
		v.ServerError = r.Explain(err, nil).Error()
	}
}

// commit returns the commit that the Go toolchain wrote into the binary, if it did.
func commit() (text string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text = s.Value + text
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " (with changes that are not committed)"
		}
	}
	return text
}
