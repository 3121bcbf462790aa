package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newQueue() *cobra.Command {
	return remoteFlags(group(&cobra.Command{
		Use: "queue", Short: "List, pause and resume queues",
		Example: `  belfry queue list
  belfry queue pause imports`,
	}, newQueueList(), newQueuePause(), newQueueResume()))
}

type queueView struct {
	Name      string     `json:"name"`
	Paused    bool       `json:"paused"`
	PausedAt  *time.Time `json:"paused_at"`
	Note      string     `json:"note"`
	CreatedAt *time.Time `json:"created_at"`
}

func newQueueList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List queues", Args: wants(0, 0),
		Example: `  belfry queue list
  belfry queue list -o json`,
	}
	limit := limitFlag(cmd.Flags())
	cmd.RunE = with(func(ctx context.Context, r *remote, _ []string) error {
		return list(ctx, r, listing{path: "/queues", limit: *limit, headers: []string{"NAME", "STATE", "SINCE UTC", "WHY"}}, func(q queueView) []string {
			if q.Paused {
				return []string{q.Name, stateStyle("paused"), short(q.PausedAt, nil), dash(q.Note)}
			}
			return []string{q.Name, stateStyle("active"), short(q.CreatedAt, nil), "-"}
		})
	})
	return cmd
}

func queuePath(name string) string { return "/queues/" + belfry.PathEscape(name) }

func newQueuePause() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause QUEUE", Short: "Start no more runs of a queue", Args: wants(1, 1),
		Example: `  belfry queue pause imports --note 'the warehouse is down'`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.post(ctx, queuePath(args[0])+":pause", map[string]string{"note": note})
			if err != nil {
				return err
			}
			return r.show(raw, func() error { r.say("%s %s", yellow.Render("paused"), clean(args[0])); return nil })
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for those who wonder later")
	return cmd
}

func newQueueResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "Let a paused queue start runs again", Args: wants(1, 1),
		Example: `  belfry queue resume imports`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.post(ctx, queuePath(args[0])+":resume", nil)
			if err != nil {
				return err
			}
			return r.show(raw, func() error { r.say("%s %s", green.Render("resumed"), clean(args[0])); return nil })
		}),
	}
}
