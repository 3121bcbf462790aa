// Package local holds the commands that need no server: they start a node, work on its database or its
// configuration, or compute on this machine. The wiring is in internal/app.
package local

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/config"
)

// Commands returns the commands of this package, except Keyset and AuditLedger.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newDev(), newServer(), newMigrate(), newNamespace(), newClock(), newRestore(), newBackup(), newConfig(), newBench(),
		newDoctor(), newPreview(), newRunner(), newArchive(), newReportKey(), newBroker(),
	}
}

// version returns the version of this program, which main sets on the root command.
func version(cmd *cobra.Command) string { return cmd.Root().Version }

// loadConfig reads the settings of a command that needs the database, and refuses a link to it that others could read.
func loadConfig(cmd *cobra.Command) (*config.Values, error) {
	v, err := config.Load(cmd.Flags(), os.Environ())
	if err != nil {
		return nil, err
	}
	if v.DatabaseURL == "" {
		return nil, config.ErrNoDatabase
	}
	if !v.InsecureDatabase {
		err = app.CheckLink(v.DatabaseURL)
	}
	return v, err
}

// databaseOf returns the database of the settings, with the keyset that seals entries of the audit log.
func databaseOf(v *config.Values) app.Database {
	return app.Database{URL: v.DatabaseURL, Keyset: v.Secrets.Keyset}
}

// databaseFlags adds the flags of a command that needs the database, and those of other settings.
func databaseFlags(flags *pflag.FlagSet, others ...string) {
	config.Flags(flags, append([]string{"database_url", "database_url_file", "insecure_database"}, others...)...)
}

// warn prints warnings to the error output, so that programs can read the other one.
func warn(cmd *cobra.Command, v *config.Values) {
	for _, w := range v.Warnings {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
	}
}

// noArgs rejects arguments without repeating them, as cobra would: one may be a URL with a password.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %d; settings are flags: --database-url URL",
			cmd.Name(), len(args))
	}
	return nil
}

// printKey prints a key on a line of its own, so that scripts can extract it.
func printKey(cmd *cobra.Command, what, secret string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s; keep it, it is not shown again:\n%s\n", what, secret)
	return err
}
