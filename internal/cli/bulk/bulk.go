// Package bulk holds what commands on many jobs or runs share: their flags, and waiting for the operation of the server.
package bulk

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// Flags are the flags of a command on many jobs or runs.
type Flags struct {
	all, dryRun, detach bool
	rate                int
	note                string
}

// Add adds the flags to a command. of says what it works on.
func (f *Flags) Add(cmd *cobra.Command, of string) {
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "all "+of+" of the namespace that the other filters leave")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with a filter: only count, and show some of them")
	flags.BoolVar(&f.detach, "detach", false, "with a filter: do not wait until it is done")
	flags.IntVar(&f.rate, "rate", 0, "with a filter: maximum number per second (default 50)")
	if flags.Lookup("note") == nil {
		flags.StringVar(&f.note, "note", "", "with a filter: why")
	}
}

// check reports flags that do not go together. filtered: a filter is set.
func (f *Flags) check(cmd *cobra.Command, args []string, filtered bool) error {
	switch {
	case cmd.Flags().Changed("rate") && f.rate < 1:
		return usage.Errorf("--rate %d is less than 1; use 1 or more per second, or leave it out for 50", f.rate)
	case len(args) > 0 && filtered:
		return usage.Errorf("use names or a filter, not both")
	case len(args) > 0 && (f.dryRun || f.detach || f.rate > 0):
		return usage.Errorf("--dry-run, --detach and --rate are for filters; leave them out with names")
	case len(args) == 0 && !filtered:
		return usage.Errorf("which ones? Use names, a filter such as --queue, or --all")
	}
	return nil
}

// send begins the operation of a filter and waits for its end, or counts what it would change.
func (f *Flags) send(ctx context.Context, r *remote.Server, path string, body map[string]any) error {
	if body["filter"] == nil {
		body["all"] = true
	}
	return f.post(ctx, r, path, body)
}

// post is send for a request that says elsewhere what it covers.
func (f *Flags) post(ctx context.Context, r *remote.Server, path string, body map[string]any) error {
	for field, value := range map[string]any{"rate": f.rate, "note": f.note, "dry_run": f.dryRun} {
		if value != 0 && value != "" && value != false {
			body[field] = value
		}
	}
	if !f.dryRun {
		if err := Ask(ctx, r, path, body); err != nil {
			return err
		}
	}
	raw, err := r.Post(ctx, path, body)
	if err != nil {
		return err
	}
	if f.dryRun {
		return showPreview(r, raw)
	}
	return Show(ctx, r, raw, f.detach)
}

// YesFlag has a command ask before it does to many what cannot be undone.
func YesFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("yes", false, "with a filter: do it without a question")
}

// Ask asks whether to send an operation, if its command has YesFlag.
func Ask(ctx context.Context, r *remote.Server, path string, body map[string]any) error {
	if yes := r.Cmd.Flags().Lookup("yes"); yes == nil || yes.Value.String() == "true" {
		return nil
	}
	body = maps.Clone(body)
	body["dry_run"] = true
	raw, err := r.Post(ctx, path, body)
	if err != nil {
		return err
	}
	found, err := terminal.Decode[struct {
		Count int64 `json:"count"`
		More  bool  `json:"more"`
	}](raw)
	if err != nil || found.Count == 0 && !found.More {
		return err
	}
	of, verb, _ := strings.Cut(strings.TrimPrefix(path, "/"), ":")
	count := terminal.AtLeast(found.Count, found.More)
	return r.Confirm(fmt.Sprintf("%s %s %s", verb, count, strings.ReplaceAll(of, "-", " ")))
}

// previewView is what an operation would change.
type previewView struct {
	Count  int64 `json:"count"`
	More   bool  `json:"more"`
	Sample []struct {
		ID    string     `json:"id"`
		Name  string     `json:"name"`
		State string     `json:"state"`
		DueAt *time.Time `json:"due_at"`
	} `json:"sample"`
	Spread *struct {
		Before  []int64 `json:"before"`
		After   []int64 `json:"after"`
		Changed int64   `json:"changed"`
		Exact   bool    `json:"exact"`
	} `json:"spread"`
}

func showPreview(r *remote.Server, raw []byte) error {
	return r.Show(raw, func() error {
		v, err := terminal.Decode[previewView](raw)
		if err != nil {
			return err
		}
		more := ""
		if v.More {
			more = "more than "
		}
		r.Line("%s%d match; nothing was changed", more, v.Count)
		var rows [][]string
		for _, s := range v.Sample {
			rows = append(rows, []string{terminal.Dash(s.Name), terminal.State(s.State), terminal.Time(s.DueAt, nil), s.ID})
		}
		if err := terminal.WriteTable(r.Out, []string{"JOB", "STATE", "DUE UTC", "ID"}, rows); err != nil {
			return err
		}
		if s := v.Spread; s != nil {
			r.Line("%d would change; the busiest minute of the next 24 hours has %d starts before and %d after",
				s.Changed, busiest(s.Before), busiest(s.After))
			if !s.Exact {
				r.Note("There are many jobs: only some of them are counted.")
			}
		}
		return nil
	})
}

func busiest(counts []int64) (most int64) {
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

const deadLetters = "dead letters"

// objects returns what the operation works on.
func (o *operationView) objects() string {
	switch o.Kind {
	case "redrive", "discard":
		return deadLetters
	case "cancel", "retry":
		return "runs"
	default:
		return "jobs"
	}
}

// Show waits for the end of an operation, unless detach is set, and prints its state.
func Show(ctx context.Context, r *remote.Server, raw []byte, detach bool) error {
	if !detach {
		var err error
		if raw, err = await(ctx, r, raw); err != nil {
			return err
		}
	}
	o, err := terminal.Decode[operationView](raw)
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		switch {
		case o.Count == 0 && !o.More:
			r.Line("no %s: there is nothing to %s", o.objects(), o.Kind)
		case o.State == "running":
			r.Line("%s of %s %s has begun at the server, %s",
				o.Kind, o.size(), o.objects(), terminal.Faint.Render("to end it: belfry operation abort "+o.ID))
		default:
			r.Line("%s: %s, %d of %s done, %d failed", o.Kind, terminal.State(o.State), o.Done, o.size(), o.Failed)
			if o.Done > 0 && (o.Kind == "relabel" || o.Kind == "spread") {
				r.Line("%s", terminal.Faint.Render("to restore the versions before: belfry operation undo "+o.ID))
			}
		}
		switch {
		case o.Failed > 0 && o.objects() == deadLetters:
			r.Line("%s", terminal.Faint.Render(
				"failed: their job is deleted, or the run is live; they are still dead letters"))
		case o.Failed > 0:
			r.Line("%s", terminal.Faint.Render("those that failed, and why: belfry operation items "+o.ID))
		}
		return nil
	})
}

// await waits for the end of an operation, and returns its last state.
func await(ctx context.Context, r *remote.Server, raw []byte) ([]byte, error) {
	o, err := terminal.Decode[operationView](raw)
	if err != nil {
		return nil, err
	}
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), o.Kind, o.Count)
	defer bar.End()
	for o.State == "running" {
		bar.Set(o.Done+o.Failed, o.Count)
		remote.Pause(ctx, remote.PollPause)
		if ctx.Err() == nil {
			raw, err = r.Get(ctx, operationPath(o.ID), nil)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no longer waited for, after %d of %d; the %s goes on at the server."+
				" To end it: belfry operation abort %s", o.Done+o.Failed, o.Count, o.Kind, o.ID)
		}
		if err != nil {
			return nil, err
		}
		if o, err = terminal.Decode[operationView](raw); err != nil {
			return nil, err
		}
	}
	return raw, nil
}
