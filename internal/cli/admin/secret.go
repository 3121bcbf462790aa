package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/local"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newSecret() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "secret", Short: "Store, list and delete the secrets that targets use",
		Long: `Secrets are stored encrypted, for the targets of your namespace: their config names
one as {"secret": "NAME"}. No command returns a value, but whoever may edit jobs can send
it anywhere, unless the secret is bound to hosts or kinds of targets.`,
		Example: `  belfry secret set hook-signing <signing.key
  belfry secret list`,
	}, newSecretSet(), newSecretBind(), newSecretList(), newSecretDelete(), local.Keyset()))
}

func secretPath(name string) string { return "/secrets/" + belfry.PathEscape(name) }

// maxSecretFile is more than the server accepts, so that the server reports a value that is too long.
const maxSecretFile = 128 << 10

func newSecretSet() *cobra.Command {
	var file, keep string
	var bound binding
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Store a secret, read from standard input or a file", Args: usage.Args(1, 1),
		Long: `Store a secret under a name, and replace the value it had. The value is read from
standard input, or from the file that --file names, without one line break
at its end. It cannot be an argument: other users of the machine see arguments.

With --host or --kind, only jobs with such targets can use the secret. If it exists
already, only an admin can change that; without them it stays as it is. Such a secret can
be part of a URL only with --kind http_url, and in a header of a message to a broker only
with --kind message_header.`,
		Example: `  belfry secret set api-token <token.txt
  belfry secret set api-token --host hooks.example.com --host '*.example.org' <token.txt
  belfry secret set client-key --file key.pem
  belfry secret set hook-signing --keep-previous-for 7d <new.key`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			value, err := readSecretValue(r.Cmd, file)
			if err != nil {
				return err
			}
			body := bound.body(r.Cmd)
			body["value"] = value
			if keep != "" {
				body["keep_previous_for"] = keep
			}
			var raw []byte
			q := belfry.Request{Method: http.MethodPut, Path: secretPath(args[0]), Body: body}
			if err := r.Call(ctx, q, &raw); err != nil {
				return err
			}
			if err := r.ShowDone(raw, terminal.Green.Render("stored"), args[0]); err != nil {
				return err
			}
			return showBinding(r, raw)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "read the value from this file")
	cmd.Flags().StringVar(&keep, "keep-previous-for", "",
		"how long to sign with the previous value as well (default 24h)")
	bound.flags(cmd)
	return cmd
}

// showBinding says where a secret may be used, which may have been set before.
func showBinding(r *remote.Server, raw []byte) error {
	var s secretView
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if len(s.Hosts) > 0 {
		r.Line("bound to hosts: %s", terminal.Clean(strings.Join(s.Hosts, ",")))
	}
	if len(s.Kinds) > 0 {
		r.Line("bound to kinds: %s", terminal.Clean(strings.Join(s.Kinds, ",")))
	}
	return nil
}

// binding is where a secret may be used, as flags say.
type binding struct{ hosts, kinds []string }

func (b *binding) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&b.hosts, "host", nil,
		"a host that may receive the secret, such as hooks.example.com or *.example.com; may be repeated")
	cmd.Flags().StringSliceVar(&b.kinds, "kind", nil,
		"a kind of target that may use the secret: http, http_url (in the URL), "+
			"message_header (in headers of messages to a broker) or command; may be repeated")
}

// body has the lists that flags set.
func (b *binding) body(cmd *cobra.Command) map[string]any {
	out := map[string]any{}
	if cmd.Flags().Changed("host") {
		out["hosts"] = b.hosts
	}
	if cmd.Flags().Changed("kind") {
		out["kinds"] = b.kinds
	}
	return out
}

func newSecretBind() *cobra.Command {
	var bound binding
	cmd := &cobra.Command{
		Use: "bind SECRET", Short: "Change where a secret may be used", Args: usage.Args(1, 1),
		Long: `Change the hosts that may receive a secret and the kinds of targets that may use it.
This needs the role admin. --host '' and --kind '' allow all. Runs of jobs that use
the secret elsewhere fail from then on, and such jobs cannot be saved. A secret with hosts
or kinds can be part of a URL only with --kind http_url, and in a header of a message to a
broker only with --kind message_header.`,
		Example: `  belfry secret bind api-token --host hooks.example.com
  belfry secret bind chat-path --host hooks.example.com --kind http_url
  belfry secret bind dump-password --kind command --host ''`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			body := bound.body(r.Cmd)
			if len(body) == 0 {
				return usage.Errorf("there is nothing to change; give --host or --kind")
			}
			var raw []byte
			q := belfry.Request{Method: http.MethodPatch, Path: secretPath(args[0]), Body: body}
			if err := r.Call(ctx, q, &raw); err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Green.Render("bound"), args[0])
		}),
	}
	bound.flags(cmd)
	return cmd
}

func readSecretValue(cmd *cobra.Command, name string) (string, error) {
	from := cmd.InOrStdin()
	if name != "" {
		f, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if value == "" {
		return "", usage.Errorf("there is no value; write it to standard input, or name a file: --file")
	}
	return value, nil
}

type secretView struct {
	Name          string     `json:"name"`
	Version       int        `json:"version"`
	UpdatedAt     *time.Time `json:"updated_at"`
	UpdatedBy     string     `json:"updated_by"`
	PreviousUntil *time.Time `json:"previous_until"`
	Hosts         []string   `json:"hosts"`
	Kinds         []string   `json:"kinds"`
}

func newSecretList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the secrets of your namespace, without their values", Args: usage.Args(0, 0),
		Example: `  belfry secret list`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			return remote.List(ctx, r, remote.Listing{
				Path: "/secrets",
				Headers: []string{
					"NAME", "VERSION", "UPDATED UTC", "BY", "PREVIOUS USED UNTIL UTC", "HOSTS", "KINDS",
				},
			}, func(s secretView) []string {
				return []string{
					s.Name, fmt.Sprint(s.Version), terminal.Time(s.UpdatedAt, nil), s.UpdatedBy,
					terminal.Time(s.PreviousUntil, nil), strings.Join(s.Hosts, ","), strings.Join(s.Kinds, ","),
				}
			})
		}),
	}
}

func newSecretDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete SECRET", Short: "Delete a secret", Args: usage.Args(1, 1),
		Long:    `Delete a secret. Runs of jobs that name it fail until it is there again.`,
		Example: `  belfry secret delete api-token`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			if err := r.Delete(ctx, secretPath(args[0])); err != nil {
				return err
			}
			r.Line("%s %s", terminal.Red.Render("deleted"), terminal.Clean(args[0]))
			return nil
		}),
	}
}
