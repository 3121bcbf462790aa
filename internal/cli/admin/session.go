package admin

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newSession() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "session", Short: "List and end logins to the web UI",
		Long: `List and end the login sessions of your key in the web UI. To end those of another
key, revoke that key (belfry key revoke), or use it with --key.`,
		Example: `  belfry session list
  belfry session revoke`,
	}, newSessionList(), newSessionRevoke()))
}

type sessionView struct {
	ID        string     `json:"id"`
	Client    string     `json:"client"`
	CreatedAt *time.Time `json:"created_at"`
	UsedAt    *time.Time `json:"used_at"`
	ExpiresAt *time.Time `json:"expires_at"`
}

const clientWidth = 60 // of the column

func newSessionList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the logins of your key", Args: usage.Args(0, 0),
		Example: `  belfry session list`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			return remote.List(ctx, r, remote.Listing{
				Path: "/sessions", OnePage: true, Name: "id", None: "your key is not logged in to the web UI",
				Headers: []string{"ID", "BEGUN UTC", "USED UTC", "ENDS UTC", "BROWSER"},
			}, func(s sessionView) []string {
				return []string{
					s.ID, terminal.Time(s.CreatedAt, nil), terminal.Time(s.UsedAt, nil), terminal.Time(s.ExpiresAt, nil),
					terminal.Truncate(s.Client, clientWidth),
				}
			})
		}),
	}
}

func newSessionRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke", Short: "End all logins of your key", Args: usage.Args(0, 0),
		Long: `End all login sessions of your key in the web UI, on all nodes within 5 s. The key
itself stays valid: belfry key revoke ends both.`,
		Example: `  belfry session revoke`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			raw, err := r.Post(ctx, "/sessions:revoke", nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				ended, err := terminal.Decode[struct {
					Revoked int `json:"revoked"`
				}](raw)
				if err != nil {
					return err
				}
				r.Line("%s %d", terminal.Red.Render("ended"), ended.Revoked)
				return nil
			})
		}),
	}
}
