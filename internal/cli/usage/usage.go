// Package usage holds what all commands share about the command line itself: checks of arguments,
// flag types, groups of commands, and the errors for what a user typed wrong.
package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Error is a mistake in what the user typed. The process exits with code 2.
type Error struct{ error }

// Unwrap returns the error below.
func (e Error) Unwrap() error { return e.error }

// Wrap marks an error as a mistake in what the user typed.
func Wrap(err error) error { return Error{err} }

// Errorf formats an Error.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// Group adds subcommands to a command. An unknown subcommand is an error: cobra alone would print the
// help and exit with 0.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		near := cmd.SuggestionsFor(args[0])
		if len(near) > 0 {
			return fmt.Errorf("there is no command %s %s; did you mean %s?",
				cmd.CommandPath(), args[0], strings.Join(near, " or "))
		}
		return fmt.Errorf("there is no command %s %s; %s --help lists them",
			cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return cmd
}

// Mark turns errors that cobra reports about flags and arguments into an Error, for a command and all
// its subcommands.
func Mark(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if near := nearFlags(cmd, err); near != "" {
			return Errorf("%w; did you mean %s?", err, near)
		}
		return Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return Error{err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		Mark(c)
	}
}

// nearFlags returns the flags that are spelled like the unknown one of an error.
func nearFlags(cmd *cobra.Command, err error) string {
	unknown, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return ""
	}
	// cobra compares the names of commands, so the flags are given to it as commands.
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	near := names.SuggestionsFor(unknown)
	for i := range near {
		near[i] = "--" + near[i]
	}
	return Either(near)
}

// Many is the maximum for commands that take any number of arguments.
const Many = 1_000_000

// Args checks the number of arguments. Its error names the expected ones.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		if wanted == "" {
			return fmt.Errorf("%s takes no arguments, got %q; %s --help lists its flags",
				cmd.CommandPath(), args[0], cmd.CommandPath())
		}
		if len(args) < least {
			return fmt.Errorf("%s wants %s, got %d arguments; add what is missing", cmd.CommandPath(), wanted, len(args))
		}
		if most == 0 {
			return fmt.Errorf("%s wants %s and no other arguments, got %q; is a flag missing before it?",
				cmd.CommandPath(), wanted, args[0])
		}
		quote := "names with spaces"
		if cmd.Flags().Changed("cron") {
			quote = "the cron expression"
		}
		return fmt.Errorf("%s wants %s, got %d arguments; put %s in quotes", cmd.CommandPath(), wanted, len(args), quote)
	}
}
