package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/schedule"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newJob() *cobra.Command {
	return remoteFlags(group(&cobra.Command{
		Use: "job", Short: "Create, look at and change jobs",
		Long: `Create, look at and change jobs. A JOB is the id of one, or its name.`,
		Example: `  belfry job create report --cron '0 2 * * *' --tz Europe/Berlin --url https://example.com/report
  belfry job list --label team=finance
  belfry job runs report`,
	}, newJobCreate(), newJobGet(), newJobList(), newJobEdit(), newJobPause(), newJobResume(), newJobTrigger(), newJobBackfill(), newJobDelete(), newJobRuns()))
}

// jobView is what people see of a job.
type jobView struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	State     string            `json:"state"`
	Note      string            `json:"note"`
	Version   int32             `json:"version"`
	Labels    map[string]string `json:"labels"`
	Schedule  schedule.Spec     `json:"schedule"`
	Target    targetView        `json:"target"`
	Payload   json.RawMessage   `json:"payload"`
	Queue     string            `json:"queue"`
	Priority  int               `json:"priority"`
	Overlap   string            `json:"overlap"`
	Timeout   string            `json:"timeout"`
	NextDueAt *time.Time        `json:"next_due_at"`
	CreatedAt *time.Time        `json:"created_at"`
	UpdatedAt *time.Time        `json:"updated_at"`
	Retry     struct {
		MaxAttempts int    `json:"max_attempts"`
		Backoff     string `json:"backoff"`
	} `json:"retry"`
	Missed struct {
		Policy string `json:"policy"`
	} `json:"missed"`
}

type targetView struct {
	Kind   string          `json:"kind"`
	Config json.RawMessage `json:"config"`
}

// String is the kind, and where it points if the config says so.
func (t targetView) String() string {
	var c struct {
		Method string `json:"method"`
		URL    string `json:"url"`
	}
	if json.Unmarshal(t.Config, &c) != nil || c.URL == "" {
		return t.Kind
	}
	return clean(strings.TrimSpace(t.Kind + " " + strings.TrimSpace(c.Method+" "+c.URL)))
}

// zone of a job; UTC if this machine does not know it.
func (j *jobView) zone() *time.Location {
	if z, err := time.LoadLocation(j.Schedule.Timezone); err == nil {
		return z
	}
	return time.UTC
}

// when is the schedule in a few words.
func (j *jobView) when() string {
	s := j.Schedule
	switch {
	case s.Cron != "":
		return s.Cron
	case s.Every != "":
		return "every " + s.Every
	case s.At != "":
		return "at " + s.At
	}
	return s.RRule
}

func (j *jobView) labels() string {
	var out []string
	for k, v := range j.Labels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// showJob prints a page about one.
func showJob(r *remote, raw []byte) error {
	return r.show(raw, func() error {
		j, err := view[jobView](raw)
		if err != nil {
			return err
		}
		zone := j.zone()
		state := stateStyle(j.State)
		if j.Note != "" {
			state += ": " + j.Note
		}
		payload := string(j.Payload)
		if len(payload) > 200 {
			payload = payload[:200] + "…"
		}
		return writeFields(r.out, []field{
			{"name", strong.Render(j.Name)},
			{"id", j.ID},
			{"state", state},
			{"schedule", j.when() + " in " + zone.String()},
			{"next due", moment(j.NextDueAt, zone)},
			{"target", j.Target.String()},
			{"payload", payload},
			{"labels", j.labels()},
			{"queue", j.Queue + ", priority " + strconv.Itoa(j.Priority)},
			{"retry", fmt.Sprintf("%d attempts, %s", j.Retry.MaxAttempts, j.Retry.Backoff)},
			{"overlap", j.Overlap + ", missed " + j.Missed.Policy},
			{"timeout", j.Timeout},
			{"version", strconv.Itoa(int(j.Version))},
			{"created", moment(j.CreatedAt, zone)},
			{"updated", moment(j.UpdatedAt, zone)},
		})
	})
}

func newJobGet() *cobra.Command {
	return &cobra.Command{
		Use: "get JOB", Short: "Show a job", Args: wants(1, 1),
		Example: `  belfry job get report
  belfry job get report -o yaml`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.get(ctx, jobPath(args[0]), nil)
			if err != nil {
				return err
			}
			return showJob(r, raw)
		}),
	}
}

func newJobPause() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause JOB", Short: "Start no more runs of a job", Args: wants(1, 1),
		Long: `Start no more runs of a job. What is under way ends. What becomes of the
occurrences until it is resumed, missed.paused of the job says.`,
		Example: `  belfry job pause report --note 'the target is being moved'`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.post(ctx, jobPath(args[0])+":pause", map[string]string{"note": note})
			if err != nil {
				return err
			}
			return r.show(raw, func() error { r.say("%s %s", yellow.Render("paused"), clean(args[0])); return nil })
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for those who wonder later")
	return cmd
}

func newJobResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume JOB", Short: "Let a paused job run again", Args: wants(1, 1),
		Example: `  belfry job resume report`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.post(ctx, jobPath(args[0])+":resume", nil)
			if err != nil {
				return err
			}
			return r.show(raw, func() error {
				resumed, err := view[struct {
					Missed int64 `json:"missed"`
				}](raw)
				if err != nil {
					return err
				}
				r.say("%s %s, %d occurrences missed while it was paused", green.Render("resumed"), clean(args[0]), resumed.Missed)
				return nil
			})
		}),
	}
}

func newJobTrigger() *cobra.Command {
	var payload string
	cmd := &cobra.Command{
		Use: "trigger JOB", Short: "Run a job now, beside its schedule", Args: wants(1, 1),
		Example: `  belfry job trigger report
  belfry job trigger report --payload '{"day":"2026-01-31"}'
  belfry job trigger report --payload @payload.json`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			body := map[string]any{}
			if payload != "" {
				p, err := readPayload(payload)
				if err != nil {
					return err
				}
				body["payload"] = p
			}
			raw, err := r.post(ctx, jobPath(args[0])+":trigger", body)
			if err != nil {
				return err
			}
			return r.show(raw, func() error {
				t, err := view[struct {
					Run string `json:"run"`
				}](raw)
				if err != nil {
					return err
				}
				r.say("%s %s", green.Render("triggered"), t.Run)
				r.say("%s", faint.Render("what becomes of it: belfry run get "+t.Run))
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "JSON in place of the job's payload, or @FILE")
	return cmd
}

func newJobDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete JOB...", Short: "Delete jobs; their history stays", Args: wants(1, many),
		Example: `  belfry job delete report
  belfry job delete report old-report`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			for _, name := range args {
				if err := r.Call(ctx, belfry.Request{Method: http.MethodDelete, Path: jobPath(name)}, nil); err != nil {
					return r.explain(err, []string{name})
				}
				r.say("%s %s", red.Render("deleted"), clean(name))
			}
			return nil
		}),
	}
}

func newJobBackfill() *cobra.Command {
	body := struct {
		From   string `json:"from"`
		To     string `json:"to"`
		Pace   string `json:"pace,omitempty"`
		Max    int    `json:"max,omitempty"`
		Again  bool   `json:"again,omitempty"`
		DryRun bool   `json:"dry_run,omitempty"`
	}{}
	cmd := &cobra.Command{
		Use: "backfill JOB --from TIME --to TIME", Short: "Run the occurrences of a time that has passed", Args: wants(1, 1),
		Long: `Run the occurrences that the job's schedule has in a time that has passed. Those
that ran already are left out unless --again is set. With --dry-run nothing runs,
and their number is printed.`,
		Example: `  belfry job backfill report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --dry-run
  belfry job backfill report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --pace 10s`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			if body.From == "" || body.To == "" {
				return usagef("say which time: --from TIME --to TIME, such as 2026-01-31T00:00:00Z")
			}
			raw, err := r.post(ctx, jobPath(args[0])+":backfill", body)
			if err != nil {
				return err
			}
			return r.show(raw, func() error { return showAnswer(r, raw) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&body.From, "from", "", "the first due time, RFC 3339")
	f.StringVar(&body.To, "to", "", "before this due time, RFC 3339")
	f.StringVar(&body.Pace, "pace", "", "the distance at which the runs start, such as 10s")
	f.IntVar(&body.Max, "max", 0, "at most so many")
	f.BoolVar(&body.Again, "again", false, "also those that ran already")
	f.BoolVar(&body.DryRun, "dry-run", false, "only say how many")
	return cmd
}

// showAnswer prints what came back, field by field, in the order of the answer.
func showAnswer(r *remote, raw []byte) error {
	n, err := nodeOf(raw)
	if err != nil {
		return err
	}
	var fields []field
	for i := 0; i+1 < len(n.Content); i += 2 {
		if v := n.Content[i+1]; v.Value != "" {
			fields = append(fields, field{strings.ReplaceAll(n.Content[i].Value, "_", " "), v.Value})
		}
	}
	return writeFields(r.out, fields)
}
