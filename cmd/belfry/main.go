// Command belfry is server, worker tool and command line in one.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	_ "time/tzdata" // zones also where the system has none

	"github.com/spf13/cobra"
)

func main() {
	if err := newRoot().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "belfry:", cleanLines(strings.TrimPrefix(err.Error(), "belfry: ")))
		os.Exit(exitCode(err))
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
	own := cobra.Group{ID: "own", Title: "On this machine:"}
	client := cobra.Group{ID: "client", Title: "With a server (belfry login, or BELFRY_SERVER and BELFRY_KEY):"}
	root.AddGroup(&own, &client)
	add(root, own.ID, newDev(), newServer(), newMigrate(), newNamespace(), newConfig(), newBench(), newPreview(), newRunner())
	add(root, client.ID, newLogin(), newJob(), newRun(), newWhy(), newQueue(), newDLQ(), newKey(), newSecret(), newApply(), newDiff(), newImport())
	group(root)
	markUsage(root)
	complete(root)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	return root
}

func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
	}
	root.AddCommand(commands...)
}

// version is what the Go toolchain wrote into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
