package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/bulk"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newJobTrigger() *cobra.Command {
	var payload, at, once string
	var wait, ifIdle bool
	var timeout time.Duration
	var many bulk.JobFlags
	cmd := &cobra.Command{
		Use: "trigger [JOB...]", Short: "Run jobs now, in addition to their schedules",
		Long: `Run jobs now, in addition to their schedules. A run waits for other runs of its job
to end; with --if-idle it is refused instead. With overlap allow it starts at once, and
with replace it replaces them.

With --wait, the command waits until the runs have ended and prints how; the exit code
is 1 if one did not succeed. Ctrl-C or --timeout ends the waiting, not the runs.

` + bulk.About,
		Example: `  belfry job trigger report
  belfry job trigger report --wait --timeout 10m
  belfry job trigger report --at 2027-01-31T09:00:00Z
  belfry job trigger report --payload '{"day":"2026-01-31"}'
  belfry job trigger report --payload @payload.json
  belfry job trigger report --idempotency-key order-77
  belfry job trigger report --if-idle
  belfry job trigger --label team=billing --rate 10`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			switch {
			case len(args) == 0 && (payload+at != "" || ifIdle):
				return usage.Errorf("--payload, --at and --if-idle need the names of jobs")
			case len(args) != 1 && once != "":
				return usage.Errorf("--idempotency-key needs the name of one job: a key is for one request")
			}
			if done, err := many.Many(ctx, r, args, "trigger", map[string]any{}); done {
				return err
			}
			if r.Cmd.Flags().Changed("timeout") && (!wait || timeout <= 0) {
				return usage.Errorf("--timeout limits how long --wait waits: use both, with a positive duration such as 10m")
			}
			body := map[string]any{"if_idle": ifIdle}
			if payload != "" {
				p, err := readPayload("payload", payload)
				if err != nil {
					return err
				}
				body["payload"] = p
			}
			if at != "" {
				body["at"] = at
			}
			runs, err := triggerAll(ctx, r, args, body)
			if err != nil || !wait {
				return err
			}
			if timeout <= 0 {
				return awaitRuns(ctx, r, runs)
			}
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			err = awaitRuns(limited, r, runs)
			if limited.Err() != nil && ctx.Err() == nil && errors.Is(err, errStillRuns) {
				return fmt.Errorf("--timeout %s: %w", timeout, err)
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "JSON in place of the job's payload, or @FILE")
	usage.TimeFlag(cmd.Flags(), &at, "at", "run them at this time, not now")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the runs have ended; exit with 1 if one did not succeed")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait, the longest time to wait (default: no limit)")
	cmd.Flags().BoolVar(&ifIdle, "if-idle", false, "refuse if a run of the job is due, in progress or retrying")
	cmd.Flags().StringVar(&once, "idempotency-key", "", "if used within 24 hours, show the run of then")
	many.Add(cmd)
	return cmd
}

// triggerAll triggers jobs and returns the ids of their runs. With --wait, programs get the runs as they ended.
func triggerAll(ctx context.Context, r *remote.Server, jobs []string, body map[string]any) (runs []string, err error) {
	wait, _ := r.Cmd.Flags().GetBool("wait")
	err = eachJob(ctx, r, jobs, !wait, func(name string) (json.RawMessage, error) {
		q := belfry.Request{Method: http.MethodPost, Path: remote.JobPath(name) + ":trigger", Body: body}
		if key, _ := r.Cmd.Flags().GetString("idempotency-key"); key != "" {
			q.Header = map[string]string{"Idempotency-Key": key}
		}
		var raw []byte
		if err := r.Call(ctx, q, &raw); err != nil {
			return nil, err
		}
		v, err := terminal.Decode[runView](raw)
		if err != nil {
			return nil, err
		}
		runs = append(runs, v.ID)
		when := ""
		if body["at"] != nil {
			when = " for " + terminal.Moment(v.DueAt, time.UTC)
		}
		r.Line("%s %s%s", terminal.Green.Render("triggered"), v.ID, when)
		if !wait && len(jobs) == 1 {
			r.Line("%s", terminal.Faint.Render("follow it with: belfry run get "+v.ID))
		}
		return raw, nil
	})
	return runs, err
}

// eachJob does something to each job until one fails. It prints the responses for programs: one object for one job,
// else an array.
func eachJob(
	ctx context.Context, r *remote.Server, jobs []string, show bool, do func(name string) (json.RawMessage, error),
) error {
	var raws []json.RawMessage
	var failed error
	for i, name := range jobs {
		raw, err := do(name)
		if err != nil {
			failed = r.Explain(err, []string{name})
			if len(jobs) > 1 && ctx.Err() == nil {
				failed = remote.Explained(err, "%s: %v (%d of %d are done)", name, failed, i, len(jobs))
			}
			break
		}
		raws = append(raws, raw)
	}
	if !show || r.ForPeople() || failed != nil && len(raws) == 0 {
		return failed
	}
	var value any = raws
	if len(jobs) == 1 {
		value = raws[0]
	}
	all, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := r.Show(all, func() error { return nil }); err != nil {
		return err
	}
	return failed
}

// errStillRuns: the waiting ended before the runs.
var errStillRuns = errors.New("no longer waited for; the run continues on the server")

// awaitRuns waits until runs have ended, and prints how each did.
func awaitRuns(ctx context.Context, r *remote.Server, runs []string) error {
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), "ended", int64(len(runs)))
	defer bar.End()
	ended, bad := []json.RawMessage{}, 0
	for i, id := range runs {
		for {
			raw, err := r.Get(ctx, remote.RunPath(id), nil)
			if ctx.Err() != nil {
				return fmt.Errorf("%w. See what it waits for with: belfry why %s", errStillRuns, id)
			}
			if err != nil {
				return err
			}
			v, err := terminal.Decode[runView](raw)
			if err != nil {
				return err
			}
			if slices.Contains(endStates, v.State) {
				bar.Set(int64(i+1), int64(len(runs)))
				ended = append(ended, raw)
				if v.State != "succeeded" {
					bad++
				}
				r.Line("%s %s%s%s", terminal.State(v.State), v.reference(), v.lastAttempt(), v.because())
				break
			}
			bar.Set(int64(i), int64(len(runs)))
			remote.Pause(ctx, remote.PollPause)
		}
	}
	bar.End()
	all, err := json.Marshal(ended)
	if err == nil {
		err = r.Show(all, func() error { return nil })
	}
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %d runs did not succeed", bad, len(runs))
	}
	return err
}

// lastAttempt returns the number of the last attempt and how long it took, to append to a sentence.
func (v *runView) lastAttempt() string {
	if v.StartedAt == nil || v.EndedAt == nil {
		return ""
	}
	return fmt.Sprintf(" in attempt %d, which took %s", v.Attempt, v.took())
}

// because returns the outcome to append to a sentence.
func (v *runView) because() string {
	if text := v.outcome(); text != "-" {
		return ": " + text
	}
	return ""
}
