package belfry_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func Example() {
	client, err := belfry.New(os.Getenv("BELFRY_SERVER"), os.Getenv("BELFRY_KEY"))
	if err != nil {
		slog.Error("no client", "error", err)
		return
	}
	ctx := context.Background()
	job := belfry.JobInput{
		Name:     "nightly-report",
		Schedule: belfry.Cron("0 2 * * *", "Europe/Berlin"),
		Target:   belfry.Target{Kind: "http", Config: map[string]any{"url": "https://example.com/report"}},
		Payload:  map[string]any{"format": "pdf"},
		Labels:   map[string]string{"team": "finance"},
	}
	// Creates the job, or replaces the job with this name.
	if _, err := client.ReplaceJobWithResponse(ctx, job.Name, nil, job); err != nil {
		fmt.Println(err) // what is wrong with each field, and how to fix it
		return
	}
	run, err := client.TriggerJobWithResponse(ctx, job.Name, nil, belfry.TriggerRequest{})
	switch {
	case belfry.CodeOf(err) == "not_found":
		fmt.Println("the job was deleted in the meantime")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("runs now:", run.JSON202.ID)
	}
}
