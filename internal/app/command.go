package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// RunnerCommand is the argument that makes this program run commands for a node.
const RunnerCommand = "runner"

// Runner runs commands for a node until orders ends.
func Runner(ctx context.Context, orders io.Reader, reports io.Writer) error {
	return runner.Serve(ctx, orders, reports)
}

// commandStore is what commands need of the database.
type commandStore struct {
	*postgres.API
	*postgres.Views
}

// startCommands creates the target that runs commands and starts its runner. It returns nil if commands
// are off. A node that cannot run commands although they are on does not start, because its runs would
// fail one by one.
func startCommands(ctx context.Context, c Config, store commandStore, log *slog.Logger) (*command.Target, error) {
	o := c.Command
	if !o.Enabled {
		return nil, nil //nolint:nilnil // no target and no error: commands are off
	}
	if o.Programs == "" && o.Images == "" {
		return nil, errors.New("commands are on, but nothing may be run; set command.programs, " +
			"such as /usr/local/lib/belfry, or command.images, or turn command.enabled off")
	}
	if c.Executable == nil {
		// Not the path of the program: the file may have been replaced by another version.
		c.Executable = []string{"/proc/self/exe", RunnerCommand}
	}
	t := command.New(command.Options{
		Settings: runner.Settings{
			Bubblewrap: o.Bubblewrap, Programs: list(o.Programs, ":"), Paths: list(o.Paths, ":"), Network: o.Network,
			Memory: int64(o.Memory) << 20, Processes: o.Processes, Scratch: int64(o.Scratch) << 20,
			Socket: o.ContainerSocket, Images: list(o.Images, ","),
		},
		Slots: o.Slots, User: o.User, Executable: c.Executable, Log: log, Secrets: secret.NewCache(store, log),
		Namespace: store.NamespaceName,
	})
	if err := t.Start(ctx); err != nil {
		return nil, err
	}
	log.Info("commands are on", "programs", o.Programs, "images", o.Images, "slots", o.Slots)
	return t, nil
}

func list(text, separator string) (out []string) {
	for _, s := range strings.Split(text, separator) {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// outputPause is how often the output of running commands is stored.
const outputPause = 2 * time.Second

// outputOnce stores what the commands of this node have written so far, so that any node can show it.
func (n *node) outputOnce(ctx context.Context) (time.Duration, error) {
	_, err := n.store.WriteOutputs(ctx, n.config.commands.Outputs())
	return outputPause, err
}
