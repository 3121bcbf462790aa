// Command jobs creates a job, runs it once and lists its runs.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("failed", "error", err) // for an invalid job: what is wrong with each field, and how to fix it
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := belfry.New(os.Getenv("BELFRY_SERVER"), os.Getenv("BELFRY_KEY"))
	if err != nil {
		return err
	}
	// Creates the job, or replaces the definition of the job with this name.
	job, err := client.Jobs.Put(ctx, belfry.JobInput{
		Name:     "nightly-report",
		Schedule: belfry.Cron("0 2 * * *", "Europe/Berlin"),
		Target:   belfry.HTTP("http://127.0.0.1:8421/report"),
		Payload:  map[string]any{"format": "pdf"},
		Labels:   map[string]string{"team": "finance"},
	})
	if err != nil {
		return err
	}
	slog.Info("saved", "job", job.Name, "next_due_at", job.NextDueAt)

	started, err := client.Jobs.Trigger(ctx, job.Name, belfry.TriggerRequest{})
	if belfry.CodeOf(err) == "not_found" {
		return fmt.Errorf("the job was deleted in the meantime: %w", err)
	}
	if err != nil {
		return err
	}
	slog.Info("triggered", "run", started.ID)

	for run, err := range client.Runs.List(ctx, belfry.RunFilter{Job: job.Name}) {
		if err != nil {
			return err
		}
		slog.Info("found", "run", run.ID, "state", run.State)
	}
	return nil
}
