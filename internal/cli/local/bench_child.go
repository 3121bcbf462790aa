package local

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/bench"
	"github.com/belfry-dev/belfry/internal/config"
)

// newBenchNode is the command that a benchmark starts as a node.
func newBenchNode() *cobra.Command {
	var profile string
	var owned bool
	cmd := &cobra.Command{
		Use: "node", Short: "The node of a benchmark, started by it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			v.Listen = "127.0.0.1:0"         // other nodes may run on this machine
			v.Targets.Allow = "127.0.0.1/32" // the sink
			c := app.Config{Config: v.Config, Version: version(cmd), Scratch: owned}
			return bench.Node(cmd.Context(), c, profile, childPipes(cmd))
		},
	}
	config.Flags(cmd.Flags(), nodeSettings...)
	cmd.Flags().BoolVar(&owned, "owned", false, "work as the owner of the scratch database")
	cmd.Flags().StringVar(&profile, "profile", "", "write a CPU profile to this file")
	return cmd
}

// newBenchSink is the command that a benchmark starts as a receiver.
func newBenchSink() *cobra.Command {
	return &cobra.Command{
		Use: "sink", Short: "The receiver of a benchmark, started by it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.Sink(cmd.Context(), childPipes(cmd)) },
	}
}

// childPipes returns the pipes to the parent process. Ctrl-C reaches children too, so they ignore it: the
// parent decides when they end.
func childPipes(cmd *cobra.Command) bench.Pipes {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	return bench.Pipes{Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
}
