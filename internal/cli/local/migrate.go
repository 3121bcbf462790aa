package local

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
)

func newMigrate() *cobra.Command {
	var role string
	var noKey, contract bool
	var life *keyLife
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to date", Args: noArgs,
		Long: `Bring the schema up to date, as the owner of the database. Let the role that
nodes log in as do what they need. The first time, and with --server-role, also let
no other login connect to the database. The first time, create an admin key of the
namespace default and print it: it cannot be shown again.

Nodes of the previous version keep working, so you can roll back. A contract
migration, which removes what they use, is applied with --contract only. It fails
while a live node does not know it.`,
		Example: `  BELFRY_DATABASE_URL=postgres://belfry@127.0.0.1/belfry belfry migrate
  belfry migrate --config owner.yaml --server-role belfry_nodes
  belfry migrate --contract`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			warn(cmd, v)
			created := false
			schema, err := app.Migrate(cmd.Context(), v.DatabaseURL, app.MigrateParams{
				Contract: contract,
				New:      func() { created = true },
				Waiting: func(err error) {
					cmd.PrintErrln("waiting, and trying again for up to 5 minutes:", err)
				},
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), schema.Advice())
			if err != nil {
				return err
			}
			if err := grant(cmd, v.DatabaseURL, role, created); err != nil || noKey {
				return err
			}
			secret, err := app.FirstKey(cmd.Context(), databaseOf(v), life.life)
			if err != nil || secret == "" {
				return err
			}
			return printKey(cmd, life.named(firstKey), secret)
		},
	}
	databaseFlags(cmd.Flags())
	cmd.Flags().StringVar(&role, serverRole, "belfry_server", "role of the database that nodes log in as")
	cmd.Flags().BoolVar(&contract, "contract", false,
		"apply the migrations that remove what older nodes use; rolling back is not possible after that")
	cmd.Flags().BoolVar(&noKey, "no-key", false, "create no key")
	life = newKeyLife(cmd.Flags(), keyExpiresIn)
	return cmd
}

const (
	serverRole   = "server-role"
	keyExpiresIn = "key-expires-in"
	firstKey     = "the first key of namespace default, an admin's"
)

// grant lets nodes log in as a role. A missing default role is only a warning: the operator may create it
// later, or use another name.
func grant(cmd *cobra.Command, url, role string, created bool) error {
	byDefault := !cmd.Flags().Changed(serverRole)
	err := app.Grant(cmd.Context(), url, app.GrantParams{
		Role: role, Default: byDefault, New: created,
		Revoked: func(database string) {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "revoked CONNECT and TEMPORARY on database %s from PUBLIC; other programs"+
				" that use it need: GRANT CONNECT ON DATABASE %s TO …\n", database, database)
		},
	})
	var warning error
	if open, ok := errors.AsType[app.ConnectError](err); ok {
		warning = open
	} else if errors.Is(err, app.ErrNoRole) && byDefault {
		warning = err
	}
	if warning != nil {
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
		return err
	}
	if err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "nodes can log in as %s\n", role)
	}
	return err
}
