// Package files holds the commands that make the server's jobs what a file says: apply, diff and
// import.
package files

import (
	"github.com/spf13/cobra"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command { return []*cobra.Command{newApply(), newDiff(), newImport()} }
