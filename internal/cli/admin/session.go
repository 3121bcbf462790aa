package admin

import (
	"cmp"
	"context"
	"net/url"
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
key, revoke that key (belfry key revoke), or use it with --key. An admin can also list
and end the sessions of a person who logged in through the identity provider.`,
		Example: `  belfry session list
  belfry session revoke
  belfry session revoke --subject 248289761001`,
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

// addSubject adds the flag that names a person.
func addSubject(cmd *cobra.Command, subject *string) *cobra.Command {
	cmd.Flags().StringVar(subject, "subject", "",
		"of this person, by the id at the identity provider, and not of your key; needs the role admin")
	return cmd
}

func newSessionList() *cobra.Command {
	var subject string
	return addSubject(&cobra.Command{
		Use: "list", Short: "List the logins of your key, or of a person", Args: usage.Args(0, 0),
		Example: `  belfry session list
  belfry session list --subject 248289761001`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			return remote.List(ctx, r, remote.Listing{
				Path: "/sessions", Query: url.Values{"subject": {subject}}, OnePage: true, Name: "id",
				None:    cmp.Or(notLoggedIn(subject), "your key is not logged in to the web UI"),
				Headers: []string{"ID", "BEGUN UTC", "USED UTC", "ENDS UTC", "BROWSER"},
			}, func(s sessionView) []string {
				return []string{
					s.ID, terminal.Time(s.CreatedAt, nil), terminal.Time(s.UsedAt, nil), terminal.Time(s.ExpiresAt, nil),
					terminal.Truncate(s.Client, clientWidth),
				}
			})
		}),
	}, &subject)
}

func notLoggedIn(subject string) string {
	if subject == "" {
		return ""
	}
	return "this person is not logged in to the web UI in this namespace"
}

func newSessionRevoke() *cobra.Command {
	var subject string
	return addSubject(&cobra.Command{
		Use: "revoke", Short: "End all logins of your key, or of a person", Args: usage.Args(0, 0),
		Long: `End all login sessions of your key in the web UI, on all nodes within 5 s. The key
itself stays valid: belfry key revoke ends both.

With --subject, end those of a person, and abort the operations that the person began.
The person can log in again until the identity provider refuses that.`,
		Example: `  belfry session revoke
  belfry session revoke --subject 248289761001`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			path := "/sessions:revoke"
			if subject != "" {
				path += "?" + url.Values{"subject": {subject}}.Encode()
			}
			raw, err := r.Post(ctx, path, nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				ended, err := terminal.Decode[struct {
					abortedView
					Revoked int `json:"revoked"`
				}](raw)
				if err != nil {
					return err
				}
				ended.note(r)
				r.Line("%s %d", terminal.Red.Render("ended"), ended.Revoked)
				return nil
			})
		}),
	}, &subject)
}
