package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/release"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// versionTimeout bounds the request for the server's version, which is a convenience.
const versionTimeout = 3 * time.Second

type versionView struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Go         string `json:"go"`
	System     string `json:"system"`
	ReleaseKey string `json:"release_key,omitempty"`

	Server        string `json:"server,omitempty"`
	ServerVersion string `json:"server_version,omitempty"`
	ServerError   string `json:"server_error,omitempty"`
}

func newVersion() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this program and of the server", Args: usage.Args(0, 0),
		Long: `Print the version of this program, the commit and the Go version that it was built
with, the key of releases that it knows, and the version of the server if you are
logged in to one.

With --verify it checks a downloaded file of another release instead, such as the
package of the next version. SHA256SUMS and SHA256SUMS.minisig of that release must
be in the same directory. The key of this program must have signed them, and the
file must have the checksum that is signed. It needs no network.`,
		Example: `  belfry version
  belfry version -o json
  belfry version --verify belfry_0.2.0_linux_amd64.tar.gz`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("verify") {
				return verify(cmd, file)
			}
			v := versionView{
				Version: cmd.Root().Version, Commit: commit(), Go: runtime.Version(),
				System: runtime.GOOS + "/" + runtime.GOARCH, ReleaseKey: release.PublicKey(),
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
				{"version", v.Version},
				{"commit", v.Commit},
				{"go", v.Go},
				{"system", v.System},
				{"release key", v.ReleaseKey},
				{"server", server},
			})
		},
	}
	cmd.Flags().StringVar(&file, "verify", "", "file of a release, next to its SHA256SUMS and SHA256SUMS.minisig")
	return remote.Flags(cmd)
}

// verify prints the release that a file is part of, or returns why it is not.
func verify(cmd *cobra.Command, file string) error {
	signed, err := release.Verify(release.PublicKey(), file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is a file of %s: signature and checksum are correct\n",
		terminal.Clean(file), terminal.Clean(signed))
	return err
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
