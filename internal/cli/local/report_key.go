package local

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/reportkey"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func newReportKey() *cobra.Command {
	cmd := &cobra.Command{
		Use: "report-key", Short: "Rotate and list the keys that sign run tokens",
		Long: `The nodes sign the tokens with which targets report on runs. They share the key through
the database, encrypted with the keyset of secrets if there is one. Use the database
URL of the owner, and the secrets.keyset_file of the nodes.`,
		Example: `  belfry report-key rotate --config belfry.yaml
  belfry report-key list`,
	}
	usage.Group(cmd, newReportKeyRotate(), newReportKeyList())
	for _, c := range cmd.Commands() {
		databaseFlags(c.Flags(), "secrets.keyset_file")
	}
	return cmd
}

func newReportKeyRotate() *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use: "rotate", Short: "Replace the key that signs run tokens", Args: noArgs,
		Long: `Add a key that signs run tokens. Nodes begin to sign with it in 5 minutes, when all of
them have read it. They accept tokens of the keys before it for as long as --keep says
and 2 minutes more after that, and then delete these keys. The new key is encrypted if
this command has a keyset.

By default no token becomes invalid: a token is valid for 30 days. If someone else has
the old key, shorten --keep. Targets can then no longer report on runs that they
accepted before.

At most 10 keys are accepted at the same time, and 20 with --keep 0s.`,
		Example: `  belfry report-key rotate --config belfry.yaml
  belfry report-key rotate --config belfry.yaml --keep 0s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := schedule.ParseDuration(keep)
			if err != nil {
				return usage.Errorf("--keep %q is not a time; use one such as 30d or 0s", keep)
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			warn(cmd, v)
			k, err := reportkey.Rotate(cmd.Context(), databaseOf(v), d)
			if err != nil {
				return err
			}
			how := "encrypted with the keyset"
			if !k.Sealed {
				how = "not encrypted, because this command and the nodes have no keyset"
			}
			until := k.UseAt.Add(d + access.ReportKeyGrace)
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"added a key, %s\nnodes sign with it from %s, and accept the old ones until %s at the latest\n",
				how, k.UseAt.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
			return err
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "30d", "how long tokens of the old keys are accepted after that, from 0s to 30d")
	return cmd
}

// reportKeyView is a key in the output for programs.
type reportKeyView struct {
	Name      string     `json:"name"`
	Encrypted bool       `json:"encrypted"`
	UseAt     time.Time  `json:"use_at"`
	Until     *time.Time `json:"until"` // null: it was not replaced
}

func newReportKeyList() *cobra.Command {
	var output *string
	cmd := &cobra.Command{
		Use: "list", Short: "List the keys that sign run tokens, without the keys themselves", Args: noArgs,
		Example: `  belfry report-key list
  belfry report-key list -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			all, err := reportkey.List(cmd.Context(), databaseOf(v))
			if err != nil {
				return err
			}
			items, rows := []reportKeyView{}, [][]string{}
			for _, k := range all {
				view := viewReportKey(k)
				encrypted := "no"
				if k.Sealed {
					encrypted = "yes"
				}
				items = append(items, view)
				rows = append(rows, []string{
					terminal.Clean(k.Name), encrypted, terminal.Time(&k.UseAt, nil), terminal.Time(view.Until, nil),
				})
			}
			if *output == usage.Table {
				return terminal.WriteTable(cmd.OutOrStdout(),
					[]string{"NAME", "ENCRYPTED", "SIGNS FROM UTC", "ACCEPTED UNTIL UTC"}, rows)
			}
			return terminal.WriteValue(cmd.OutOrStdout(), *output, items)
		},
	}
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

func viewReportKey(k access.ReportKey) reportKeyView {
	v := reportKeyView{Name: k.Name, Encrypted: k.Sealed, UseAt: k.UseAt}
	if !k.Until.IsZero() {
		v.Until = &k.Until
	}
	return v
}
