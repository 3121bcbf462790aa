package admin

import (
	"context"
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
one as {"secret": "NAME"}. A value cannot be read back.`,
		Example: `  belfry secret set hook-signing <signing.key
  belfry secret list`,
	}, newSecretSet(), newSecretList(), newSecretDelete(), local.Keyset()))
}

func secretPath(name string) string { return "/secrets/" + belfry.PathEscape(name) }

// maxSecretFile is more than the server accepts, so that the server reports a value that is too long.
const maxSecretFile = 128 << 10

func newSecretSet() *cobra.Command {
	var file, keep string
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Store a secret, read from standard input or a file", Args: usage.Args(1, 1),
		Long: `Store a secret under a name, and replace the value it had. The value is read from
standard input, or from the file that --file names, without one line break
at its end. It cannot be an argument: other users of the machine see arguments.`,
		Example: `  belfry secret set api-token <token.txt
  belfry secret set client-key --file key.pem
  belfry secret set hook-signing --keep-previous-for 7d <new.key`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			value, err := readSecretValue(r.Cmd, file)
			if err != nil {
				return err
			}
			body := map[string]string{"value": value}
			if keep != "" {
				body["keep_previous_for"] = keep
			}
			var raw []byte
			q := belfry.Request{Method: http.MethodPut, Path: secretPath(args[0]), Body: body}
			if err := r.Call(ctx, q, &raw); err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Green.Render("stored"), args[0])
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "read the value from this file")
	cmd.Flags().StringVar(&keep, "keep-previous-for", "",
		"how long to sign with the previous value as well (default 24h)")
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
}

func newSecretList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the secrets of your namespace, without their values", Args: usage.Args(0, 0),
		Example: `  belfry secret list`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			return remote.List(ctx, r, remote.Listing{
				Path: "/secrets", Headers: []string{"NAME", "VERSION", "UPDATED UTC", "BY", "PREVIOUS USED UNTIL UTC"},
			}, func(s secretView) []string {
				return []string{
					s.Name, fmt.Sprint(s.Version), terminal.Time(s.UpdatedAt, nil), s.UpdatedBy,
					terminal.Time(s.PreviousUntil, nil),
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
