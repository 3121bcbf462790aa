package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/bench"
)

// newBenchNode is the node that a benchmark starts.
func newBenchNode() *cobra.Command {
	c := app.Config{Listen: "127.0.0.1:0", KeepHistory: 24 * time.Hour, Drain: 10 * time.Second}
	var profile string
	cmd := &cobra.Command{
		Use: "node", Short: "The node of a benchmark, started by it", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.DatabaseURL, err = databaseURL(cmd); err != nil {
				return err
			}
			return bench.Node(cmd.Context(), c, profile, childPipes(cmd))
		},
	}
	f := cmd.Flags()
	f.String(databaseFlag, "", "PostgreSQL URL (or BELFRY_DATABASE_URL)")
	f.IntVar(&c.Slots, "slots", defaultSlots, "attempts at once")
	f.Int32Var(&c.Connections, "connections", defaultConnections, "connections to the database")
	f.StringVar(&profile, "profile", "", "write a CPU profile to this file")
	return cmd
}

// newBenchSink is the receiver that a benchmark starts.
func newBenchSink() *cobra.Command {
	return &cobra.Command{
		Use: "sink", Short: "The receiver of a benchmark, started by it", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.Sink(cmd.Context(), childPipes(cmd)) },
	}
}

// childPipes are what a child and its parent speak through. A Ctrl-C reaches the
// children too; when they end is the parent's decision.
func childPipes(cmd *cobra.Command) bench.Pipes {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	return bench.Pipes{Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
}
