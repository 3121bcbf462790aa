package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
)

const (
	databaseFlag = "database-url"

	// Of a node.
	defaultSlots       = 1000
	defaultConnections = 16
)

// databaseURL is the flag, or the environment: a URL with a password does not
// belong on a command line.
func databaseURL(cmd *cobra.Command) (string, error) {
	url, err := cmd.Flags().GetString(databaseFlag)
	if err != nil {
		return "", err
	}
	if url == "" {
		url = os.Getenv("BELFRY_DATABASE_URL")
	}
	if url == "" {
		return "", errors.New("no database; set BELFRY_DATABASE_URL or --database-url, for example postgres://belfry@127.0.0.1:5432/belfry")
	}
	return url, nil
}

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := databaseURL(cmd)
			if err != nil {
				return err
			}
			n, err := app.Migrate(cmd.Context(), url)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d migrations applied, the schema is up to date\n", n)
			return err
		},
	}
	cmd.Flags().String(databaseFlag, "", "PostgreSQL URL (or BELFRY_DATABASE_URL)")
	return cmd
}

func newServer() *cobra.Command {
	var c app.Config
	cmd := &cobra.Command{
		Use: "server", Short: "Run a node", Args: cobra.NoArgs,
		Long: `Run a node of the cluster. All nodes are equal: start as many as you like on
one database. SIGTERM hands the node's work over and lets what is under way end.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.DatabaseURL, err = databaseURL(cmd); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return app.Serve(ctx, c, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	f := cmd.Flags()
	f.String(databaseFlag, "", "PostgreSQL URL (or BELFRY_DATABASE_URL)")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8420", "address of health and metrics")
	f.StringVar(&c.Name, "name", "", "name of this node, for people (default the host's)")
	f.IntVar(&c.Slots, "slots", defaultSlots, "attempts at once")
	f.Int32Var(&c.Connections, "connections", defaultConnections, "connections to the database")
	f.DurationVar(&c.KeepHistory, "keep-history", 30*24*time.Hour, "how long history is kept")
	f.DurationVar(&c.Drain, "drain", 30*time.Second, "how long a stop waits for attempts under way")
	return cmd
}
