package admin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newKey() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "key", Short: "Create, list and revoke API keys",
		Example: `  belfry key create ci --role editor --expires-in 90d
  belfry key list`,
	}, newKeyCreate(), newKeyList(), newKeyRevoke()))
}

type keyView struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Prefix    string     `json:"prefix"`
	CreatedBy string     `json:"created_by"`
	CreatedAt *time.Time `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

func (k *keyView) state() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && k.ExpiresAt.Before(clock.Now()):
		return "expired"
	}
	return "active"
}

func newKeyCreate() *cobra.Command {
	var role *usage.Choice
	var expires string
	var queues []string
	cmd := &cobra.Command{
		Use: "create NAME --role ROLE", Short: "Create a key; it is shown this once", Args: usage.Args(1, 1),
		Long: `Create a key of your namespace. It is printed this once and cannot be found out
later. A viewer may read. An operator may also pause, resume, trigger and cancel. An
editor may also create, change and delete jobs. An admin may also create keys. A
worker may claim runs of the named queues and report on them, and nothing else.`,
		Example: `  belfry key create dashboard --role viewer
  belfry key create ci --role editor --expires-in 90d
  belfry key create invoices --role worker --queue invoices`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			if role.String() == "" {
				return usage.Errorf("which role? --role viewer, operator, editor, admin or worker")
			}
			body := map[string]any{"name": args[0], "role": role.String()}
			if len(queues) > 0 {
				body["queues"] = queues
			}
			if r.Cmd.Flags().Changed("expires-in") {
				body["expires_in"] = expires
			}
			raw, err := r.Post(ctx, "/keys", body)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				k, err := terminal.Decode[struct {
					keyView
					Secret string `json:"secret"`
				}](raw)
				if err != nil {
					return err
				}
				r.Note("key %s with the role %s; keep it now, it is not shown again:", k.ID, k.Role)
				r.Line("%s", k.Secret)
				return nil
			})
		}),
	}
	role = usage.NewChoice(cmd.Flags(), "role", "%s", "viewer", "operator", "editor", "admin", "worker")
	cmd.Flags().StringSliceVar(&queues, "queue", nil,
		"with --role worker: a queue that the key is good for; repeat it for more")
	cmd.Flags().StringVar(&expires, "expires-in", "",
		"how long it works, such as 90d (default: until it is revoked)")
	return cmd
}

func newKeyList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the keys of your namespace", Args: usage.Args(0, 0),
		Example: `  belfry key list`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			return remote.List(ctx, r, remote.Listing{
				Path: "/keys", OnePage: true, Name: "id",
				Headers: []string{"ID", "NAME", "ROLE", "STATE", "BEGINS", "CREATED UTC", "BY", "EXPIRES UTC"},
			}, func(k keyView) []string {
				return []string{
					k.ID, k.Name, k.Role, terminal.State(k.state()), k.Prefix + "…",
					terminal.Time(k.CreatedAt, nil), k.CreatedBy, terminal.Time(k.ExpiresAt, nil),
				}
			})
		}),
	}
}

func newKeyRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY", Short: "Revoke a key, by its id or name", Args: usage.Args(1, 1),
		Long: `Revoke a key, by its id, the beginning of its id, or its name. It stops working
within 5 s, and operations that it began are aborted. If several keys have the name,
they are listed and none is revoked.`,
		Example: `  belfry key revoke ci
  belfry key revoke key_06f8m2tq5dtk1e7n9q0c3s5v7g`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			id, err := findKey(ctx, r, args[0])
			if err != nil {
				return err
			}
			raw, err := r.Post(ctx, "/keys/"+belfry.PathEscape(id)+":revoke", nil)
			if err != nil {
				return err
			}
			ended, err := terminal.Decode[abortedView](raw)
			if err != nil {
				return err
			}
			raw, err = json.Marshal(map[string]any{"id": id, "result": "revoked", "aborted_operations": ended.Aborted})
			if err != nil {
				return err
			}
			ended.note(r)
			return r.ShowDone(raw, terminal.Red.Render("revoked"), args[0])
		}),
	}
}

// abortedView is how many operations ended with a key or a person.
type abortedView struct {
	Aborted int `json:"aborted_operations"`
}

func (v abortedView) note(r *remote.Server) {
	if v.Aborted > 0 {
		r.Note("operations aborted: %d", v.Aborted)
	}
}

// findKey returns the id of the key that a user names by its id, the beginning of its id, or its name. A name
// means a key that is not revoked.
func findKey(ctx context.Context, r *remote.Server, name string) (string, error) {
	var found []keyView
	for raw, err := range r.List(ctx, "/keys", nil) {
		if err != nil {
			return "", err
		}
		k, err := terminal.Decode[keyView](raw)
		if err != nil {
			return "", err
		}
		switch {
		case k.ID == name:
			return k.ID, nil
		case k.Name == name && k.RevokedAt == nil, remote.IsPrefix(name, "key_", k.ID):
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return name, nil // the server reports that there is no such key
	}
	return remote.OnlyOne("key", name, found, func(k keyView) (string, string) { return k.ID, k.Name + ", " + k.state() })
}
