//go:build !server

package local

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/devserver"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

// output calls unread when its pipe is no longer read.
type output struct {
	*os.File
	unread func()
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.unread()
	}
	return n, err
}

func newDev() *cobra.Command {
	var o devserver.Options
	var logLevel string
	cmd := &cobra.Command{
		Use: "dev", Short: "Run all of Belfry on this machine, to try it", Args: usage.Args(0, 0),
		Long: `Start a PostgreSQL of its own, a node with the API, a target that prints what it
receives, and a job that calls it every 10 seconds. It prints a link that opens
the web UI, and a key. It listens on this machine alone, and needs nothing to be
installed: a PostgreSQL that is there is used, else one is downloaded, once.

Targets may reach this machine alone, unless --targets-allow names more; public
means the public internet. Jobs may not run commands, unless --command-enabled and
--command-programs allow it.

Ctrl-C stops everything. Without --data nothing is left behind.`,
		Example: `  belfry dev
  belfry dev --data ./belfry-data
  belfry dev --listen 127.0.0.1:9000 --no-demo
  belfry dev --command-enabled --command-programs /usr/bin
  belfry dev --targets-allow 10.0.0.0/8,public`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Log, err = telemetry.NewLog(cmd.ErrOrStderr(), logLevel, "text"); err != nil {
				return usage.Wrap(err)
			}
			v, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			o.Command, o.Allow = v.Command, v.Targets.Allow
			o.Out, o.Program, o.Version = cmd.OutOrStdout(), os.Args[0], version(cmd)
			// Closing the terminal, or a pipe that is no longer read, also stops it in order.
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			// SIGPIPE also comes when a client of the API disconnects, which must not stop it.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			if f, ok := o.Out.(*os.File); ok {
				o.Out = &output{File: f, unread: stop}
			}
			return devserver.Run(ctx, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", "", "keep the data in this directory (default: a temporary one, removed at the end)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8420", "address of the API")
	f.StringVar(&o.Echo, "echo", "127.0.0.1:8421", "address of the target that prints")
	f.StringVar(&o.Postgres, "postgres", "",
		"directory of PostgreSQL, which has bin/postgres, or download (default: look for one, else download)")
	f.StringVar(&logLevel, "log-level", "warn", "of the node's log: debug, info, warn or error")
	f.BoolVar(&o.NoDemo, "no-demo", false, "create no job")
	config.Flags(f, "command.enabled", "command.programs", "command.network", "targets.allow")
	f.Lookup("targets-allow").Usage = "what targets may reach in addition to this machine: networks, host:port, " +
		"and public for the public internet; separated by commas"
	cmd.AddCommand(newDevDatabase())
	return cmd
}

// newDevDatabase is the command that belfry dev starts to run its database.
func newDevDatabase() *cobra.Command {
	var o devserver.DatabaseOptions
	cmd := &cobra.Command{
		Use: devserver.DatabaseCommand + " DIR", Short: "Keep the database of belfry dev until the standard input ends",
		Hidden: true, Args: usage.Args(1, 1),
		Example: `  belfry dev database DIR # belfry dev calls it`,
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // belfry dev decides when to stop
			o.Dir = args[0]
			err := devserver.RunDatabase(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
			if errors.Is(err, devserver.ErrCalledByHand) {
				return usage.Wrap(err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Binaries, "binaries", "", "directory of PostgreSQL")
	cmd.Flags().StringVar(&o.Cache, "cache", "", "directory of what was downloaded")
	cmd.Flags().Uint32Var(&o.Port, "port", 0, "where it listens")
	return cmd
}
