package local

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/privatefile"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/seal"
)

// Keyset returns the command secret keyset. It works on files alone: the keyset never goes to a server.
func Keyset() *cobra.Command {
	return usage.Group(&cobra.Command{
		Use: "keyset", Short: "Make and rotate the keys that a server encrypts secrets with",
		Long: `The keys that the servers of a cluster encrypt secrets with, for their operator. All
servers get the same ones, by the setting secrets.keyset_file or secrets.keyset.

To replace a key, in steps that a running cluster does not notice:
  belfry secret keyset add FILE    a new key; give the file to all servers, restart them
  belfry secret keyset use FILE    the new key encrypts; give it to all servers again:
                                   they encrypt the stored secrets again, and log how many
  belfry secret keyset drop FILE   without the old key; only when nothing is left`,
		Example: `  belfry secret keyset new keyset.json`,
	},
		keysetStep("new", "Create a keyset in a new file", func(*seal.Keyset) (*seal.Keyset, error) {
			return seal.New()
		}),
		keysetStep("add", "Add a key that is not used yet", (*seal.Keyset).Add),
		keysetStep("use", "Use the newest key", (*seal.Keyset).Use),
		keysetStep("drop", "Drop all keys but the one in use", func(k *seal.Keyset) (*seal.Keyset, error) {
			out, _, err := k.Drop()
			return out, err
		}),
	)
}

func keysetStep(verb, short string, step func(*seal.Keyset) (*seal.Keyset, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " FILE", Short: short, Args: usage.Args(1, 1),
		Example: "  belfry secret keyset " + verb + " keyset.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			var before *seal.Keyset
			text, err := os.ReadFile(name) //nolint:gosec // the operator names it
			switch {
			case verb == "new" && err == nil:
				return usage.Errorf("%s is there already, and what it encrypted would be lost without it;"+
					" name another file", name)
			case verb == "new":
			case err != nil:
				return err
			default:
				if before, err = seal.Read(string(text)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			after, err := step(before)
			if err != nil {
				return err
			}
			out, err := after.Text()
			if err != nil {
				return err
			}
			if err := privatefile.Write(name, []byte(out+"\n")); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; keep a copy where the database is not\n", name)
			return err
		},
	}
}
