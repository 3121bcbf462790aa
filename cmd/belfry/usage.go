package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usageError is a mistake in what was written at the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode tells scripts what happened: 1 for a failure, 2 for a mistake in usage.
// That of diff is as diff(1) has it: 1 for a difference, 2 for all that went wrong.
func exitCode(err error) int {
	if _, ok := errors.AsType[diffError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}

// group makes a command of commands. cobra alone prints the help of a group whose
// command it does not know, and calls that a success.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		near := cmd.SuggestionsFor(args[0])
		if len(near) > 0 {
			return fmt.Errorf("there is no command %s %s; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(near, " or "))
		}
		return fmt.Errorf("there is no command %s %s; %s --help lists them", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return cmd
}

// markUsage makes what cobra finds wrong with flags and arguments a usageError, in
// a command and all below it.
func markUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		markUsage(c)
	}
}

// many is for commands that take any number.
const many = 1_000_000

// wants checks the number of arguments, and says which ones are wanted.
func wants(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		if wanted == "" {
			return fmt.Errorf("%s takes no arguments, got %d", cmd.CommandPath(), len(args))
		}
		return fmt.Errorf("%s wants %s, got %d arguments; put names with spaces in quotes", cmd.CommandPath(), wanted, len(args))
	}
}
