// Package cli is the command line of Belfry. This package holds the root command and the commands that
// talk to a server, one file per noun; those use sdk/go only.
//
//	local      commands that need no server: server, migrate, dev, bench …
//	admin      keys, secrets, the audit log, the cluster
//	bulk       operations, and flags of commands on many jobs or runs
//	files      apply, diff and import: jobs from files
//	completion names and flags that a shell completes
//	release    the verification of releases
//	remote     the connection to a server, for all client commands
//	terminal   output for people
//	usage      arguments, flags and usage errors
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/admin"
	"github.com/belfry-dev/belfry/internal/cli/bulk"
	"github.com/belfry-dev/belfry/internal/cli/completion"
	"github.com/belfry-dev/belfry/internal/cli/files"
	"github.com/belfry-dev/belfry/internal/cli/local"
	"github.com/belfry-dev/belfry/internal/cli/overview"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/timeline"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// Main runs the command that the arguments of the process name, prints its error, and returns the exit
// code.
func Main(version string) int {
	err := New(version).ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	if err.Error() != "" {
		fmt.Fprintln(os.Stderr, "belfry:", terminal.CleanLines(strings.TrimPrefix(err.Error(), "belfry: ")))
	}
	return ExitCode(err)
}

// ExitCode returns the exit code for an error: 1 for a failure, 2 for a mistake in usage. The exceptions are
// diff, which has the codes of diff(1): 1 for a difference, 2 for a failure, and doctor, which has its own.
func ExitCode(err error) int {
	if _, ok := errors.AsType[files.DiffError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[usage.Error](err); ok {
		return 2
	}
	if unhealthy, ok := errors.AsType[local.UnhealthyError](err); ok {
		return unhealthy.Code
	}
	return 1
}

// New returns the root command.
func New(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "belfry",
		Short: "Runs jobs on time, on more than one machine",
		Long: `Belfry keeps one-off and recurring jobs in PostgreSQL and makes each of
their occurrences happen, on time, on a cluster of equal nodes.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("belfry {{.Version}}\n")
	own := cobra.Group{ID: "own", Title: "On this machine:"}
	client := cobra.Group{ID: "client", Title: "With a server (belfry login, or BELFRY_SERVER and BELFRY_KEY):"}
	root.AddGroup(&own, &client)
	add(root, own.ID, local.Commands()...)
	add(root, client.ID, newLogin(), overview.Status(), newJob(), newRun(), newWhy(), newDLQ())
	add(root, client.ID, timeline.NewLabel(), bulk.NewOperation())
	add(root, client.ID, admin.Commands()...)
	add(root, client.ID, files.Commands()...)
	usage.Group(root)
	usage.Mark(root)
	completion.Add(root)
	// Commands that have subcommands do nothing by themselves, so their help shows no usage line for them.
	template := root.UsageTemplate()
	template = strings.Replace(template, "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
	template = strings.ReplaceAll(template, "Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 ")
	root.SetUsageTemplate(template)
	return root
}

func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
	}
	root.AddCommand(commands...)
}
