package local

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/telemetry"
	"github.com/belfry-dev/belfry/web"
)

func newServer() *cobra.Command {
	var bootstrap bool
	cmd := &cobra.Command{
		Use: "server", Short: "Run a node", Args: noArgs,
		Long: `Run a node of the cluster. All nodes are equal: start as many as you like on
one database. SIGTERM hands the node's work over and lets what is under way end.

A setting is taken from its flag, else from the environment, else from the file
that --config names, else it has its default; belfry config show prints which.`,
		Example: `  BELFRY_DATABASE_URL=postgres://belfry_server@127.0.0.1/belfry belfry server
  belfry server --config belfry.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLog(cmd.ErrOrStderr(), v.Log.Level, v.Log.Format)
			if err != nil {
				return err
			}
			for _, w := range v.Warnings {
				log.Warn("configuration", "warning", w)
			}
			ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process immediately
			c := app.Config{Config: v.Config, Version: version(cmd), UI: ui(v.Config)}
			if c.Systemd, err = app.NewNotifier(os.Getenv); err != nil {
				return err
			}
			if bootstrap {
				c.Bootstrap = func(secret string) { err = printKey(cmd, firstKey+" for 24 hours", secret) }
			}
			return errors.Join(app.Serve(ctx, c, log), err)
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&bootstrap, "bootstrap", false,
		"create an admin key of the namespace default for 24 hours if it has none, and print it")
	return cmd
}

// ui returns the web UI. Its login page names the identity provider if there is one.
func ui(c config.Config) http.Handler {
	if c.OIDC.Issuer == "" {
		return web.Handler(web.Options{})
	}
	return web.Handler(web.Options{Provider: c.OIDC.Name})
}
