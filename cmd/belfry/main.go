// Command belfry is server, worker tool and command line in one.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	_ "time/tzdata" // zones also where the system has none

	"github.com/spf13/cobra"
)

func main() {
	if err := newRoot().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "belfry:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "belfry",
		Short: "Runs jobs on time, on more than one machine",
		Long: `Belfry keeps one-off and recurring jobs in PostgreSQL and makes each of
their occurrences happen, on time, on a cluster of equal nodes.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("belfry {{.Version}}\n")
	root.AddCommand(newPreview(), newServer(), newMigrate(), newConfig(), newBench())
	return root
}

// version is what the Go toolchain wrote into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
