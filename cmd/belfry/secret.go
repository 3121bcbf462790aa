package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newSecret() *cobra.Command {
	return remoteFlags(group(&cobra.Command{
		Use: "secret", Short: "Store, list and delete the secrets that targets use",
		Long: `Secrets are stored encrypted, for the targets of your namespace: their config names
one as {"secret": "NAME"}. Nobody can read a value back.`,
		Example: `  belfry secret set hook-signing <signing.key
  belfry secret list`,
	}, newSecretSet(), newSecretList(), newSecretDelete(), newKeysetCommand()))
}

// maxSecretFile is a little more than the server takes, so that it can say so.
const maxSecretFile = 128 << 10

func newSecretSet() *cobra.Command {
	var file, keep string
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Store a secret, read from standard input or a file", Args: wants(1, 1),
		Long: `Store a secret under a name, in place of the one that has it. The value is read from
standard input, or from the file that --file names, as it is: one line break at
its end is left away. Not from an argument: others see those.`,
		Example: `  belfry secret set api-token <token.txt
  belfry secret set client-key --file key.pem
  belfry secret set hook-signing --keep-previous-for 7d <new.key`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			value, err := readSecretValue(r.cmd, file)
			if err != nil {
				return err
			}
			body := map[string]string{"value": value}
			if keep != "" {
				body["keep_previous_for"] = keep
			}
			var raw []byte
			if err := r.Call(ctx, belfry.Request{Method: http.MethodPut, Path: "/secrets/" + belfry.PathEscape(args[0]), Body: body}, &raw); err != nil {
				return err
			}
			return r.show(raw, func() error {
				r.say("%s %s", green.Render("stored"), clean(args[0]))
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "read the value from this file")
	cmd.Flags().StringVar(&keep, "keep-previous-for", "", "how long signatures are made with the value before it too (default 24h)")
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
		return "", usagef("there is no value; write it to standard input, or name a file: --file")
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
		Use: "list", Short: "List the secrets of your namespace, without their values", Args: wants(0, 0),
		Example: `  belfry secret list`,
		RunE: with(func(ctx context.Context, r *remote, _ []string) error {
			return list(ctx, r, listing{
				path: "/secrets", headers: []string{"NAME", "VERSION", "UPDATED UTC", "BY", "PREVIOUS USED UNTIL UTC"},
			}, func(s secretView) []string {
				return []string{s.Name, fmt.Sprint(s.Version), short(s.UpdatedAt, nil), s.UpdatedBy, short(s.PreviousUntil, nil)}
			})
		}),
	}
}

func newSecretDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete SECRET", Short: "Delete a secret", Args: wants(1, 1),
		Long:    `Delete a secret. Runs of jobs that name it fail until it is there again.`,
		Example: `  belfry secret delete api-token`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			if err := r.Call(ctx, belfry.Request{Method: http.MethodDelete, Path: "/secrets/" + belfry.PathEscape(args[0])}, nil); err != nil {
				return err
			}
			r.say("%s %s", red.Render("deleted"), clean(args[0]))
			return nil
		}),
	}
}
