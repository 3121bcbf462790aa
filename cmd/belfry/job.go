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
	Deadline  string            `json:"deadline"`
	Delivery  string            `json:"delivery"`
	MaxRuns   int               `json:"max_runs"`
	NextDueAt *time.Time        `json:"next_due_at"`
	CreatedAt *time.Time        `json:"created_at"`
	UpdatedAt *time.Time        `json:"updated_at"`
	Retry     struct {
		MaxAttempts int    `json:"max_attempts"`
		Backoff     string `json:"backoff"`
		Base        string `json:"base"`
		Cap         string `json:"cap"`
	} `json:"retry"`
	Missed struct {
		Policy        string `json:"policy"`
		CatchUpWindow string `json:"catch_up_window"`
		Max           int    `json:"max"`
		Paused        string `json:"paused"`
	} `json:"missed"`
	PauseAfterFailures int `json:"pause_after_failures"`
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

// bounds are what limits a schedule.
func (j *jobView) bounds(zone *time.Location) (out string) {
	s := j.Schedule
	for _, b := range []field{{"from", short(&s.StartAt, zone)}, {"until", short(&s.EndAt, zone)}, {"jitter", s.Jitter}, {"gap", string(s.DST.Gap)}, {"fold", string(s.DST.Fold)}} {
		if b.value != "" && b.value != "-" {
			out += ", " + b.name + " " + b.value
		}
	}
	if n := len(s.Calendars); n > 0 {
		out += ", not on what its calendars exclude"
	}
	return out
}

func (j *jobView) retry() string {
	r := j.Retry
	switch {
	case r.MaxAttempts == 1:
		return "none: 1 attempt"
	case r.Backoff == "none":
		return fmt.Sprintf("%d attempts, at once", r.MaxAttempts)
	}
	return fmt.Sprintf("%d attempts, %s from %s to %s", r.MaxAttempts, r.Backoff, r.Base, r.Cap)
}

func (j *jobView) missed() string {
	m := j.Missed
	text := m.Policy
	if m.Policy == "all" {
		text += fmt.Sprintf(", at most %d", m.Max)
	}
	if m.Policy != "skip" {
		text += ", within " + m.CatchUpWindow
	}
	return text + "; of a pause: " + m.Paused
}

// number is one that is set.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
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
		if r := []rune(payload); len(r) > 200 {
			payload = string(r[:200]) + "…"
		}
		return writeFields(r.out, []field{
			{"name", strong.Render(j.Name)},
			{"id", j.ID},
			{"state", state},
			{"schedule", j.when() + " in " + zone.String() + j.bounds(zone)},
			{"next due", moment(j.NextDueAt, zone)},
			{"target", j.Target.String()},
			{"payload", payload},
			{"labels", j.labels()},
			{"queue", j.Queue + ", priority " + strconv.Itoa(j.Priority)},
			{"retry", j.retry()},
			{"timeout", j.Timeout},
			{"deadline", j.Deadline},
			{"overlap", j.Overlap},
			{"missed", j.missed()},
			{"delivery", j.Delivery},
			{"max runs", number(j.MaxRuns)},
			{"pauses after", number(j.PauseAfterFailures)},
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
					Missed int64 `json:"missed_occurrences"`
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
			results := []applied{}
			for _, name := range args {
				if err := r.Call(ctx, belfry.Request{Method: http.MethodDelete, Path: jobPath(name)}, nil); err != nil {
					return r.explain(err, []string{name})
				}
				r.say("%s %s", red.Render("deleted"), clean(name))
				results = append(results, applied{Name: name, Result: "deleted"})
			}
			raw, err := json.Marshal(results)
			if err != nil {
				return err
			}
			return r.show(raw, func() error { return nil })
		}),
	}
}
