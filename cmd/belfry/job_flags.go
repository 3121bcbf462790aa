package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// scheduleFlags are those of which a job has one; their names are the API's.
var scheduleFlags = []string{"cron", "every", "at", "rrule"}

// fieldFlags are flags whose value is a field of the job, by its path. words are
// those that it takes; none: any text, or a number if it is of an integer field.
var fieldFlags = []struct {
	flag, path, help string
	words            []string
}{
	{"tz", "schedule.timezone", "IANA time zone of the schedule (default UTC)", nil},
	{"start-at", "schedule.start_at", "nothing before this time, RFC 3339", nil},
	{"end-at", "schedule.end_at", "nothing at or after this time, RFC 3339", nil},
	{"jitter", "schedule.jitter", "each run starts up to this much later, such as 30s", nil},
	{"gap", "schedule.dst.gap", "times that a change of the clock leaves out: %s (default shift)", []string{"shift", "skip"}},
	{"fold", "schedule.dst.fold", "times that happen twice: %s (default first)", []string{"first", "second", "both"}},
	{"queue", "queue", "the lane that its runs are in (default default)", nil},
	{"overlap", "overlap", "when a run is due while another is live: %s (default skip)", []string{"skip", "queue", "queue_all", "allow", "replace"}},
	{"timeout", "timeout", "of one attempt, such as 30s (default 30s)", nil},
	{"report-timeout", "report_timeout", "how long a target that accepted a run may take to report on it (default 1h)", nil},
	{"deadline", "deadline", "skip a run that could not start so long after its due time", nil},
	{"idempotency-key", "idempotency_key", "CEL expression for the key that the target gets, such as 'job.name + \"/\" + string(due_at)' (default the run's id)", nil},
	{"delivery", "delivery", "%s (default at_least_once)", []string{"at_least_once", "at_most_once"}},
	{"priority", "priority", "0 to 9, higher first", nil},
	{"max-runs", "max_runs", "finish the job after so many runs", nil},
	{"concurrency-key", "concurrency.key", "runs of all jobs with this key wait for each other", nil},
	{"concurrency-max", "concurrency.max", "so many of them are live at once, at most (default 1)", nil},
	{"max-attempts", "retry.max_attempts", "attempts of a run in all (default 3)", nil},
	{"backoff", "retry.backoff", "how the delay between attempts grows: %s (default exponential)", []string{"none", "fixed", "linear", "exponential"}},
	{"retry-base", "retry.base", "the first delay between attempts (default 5s)", nil},
	{"retry-cap", "retry.cap", "the longest delay between attempts (default 15m)", nil},
	{"missed", "missed.policy", "after an outage: %s (default once)", []string{"skip", "once", "all"}},
	{"catch-up-window", "missed.catch_up_window", "missed occurrences that are older are skipped (default 30m)", nil},
	{"max-missed", "missed.max", "with --missed all, so many run at most (default 100)", nil},
	{"missed-paused", "missed.paused", "occurrences of a pause, when it ends: %s (default skip)", []string{"skip", "once", "all"}},
	{"pause-after-failures", "pause_after_failures", "pause the job after so many failed runs in a row", nil},
	{"keep-finished-for", "keep_finished_for", "how long a finished one-off is kept (default 24h)", nil},
}

// numberFields are those of fieldFlags that are numbers.
var numberFields = []string{"priority", "max-runs", "max-attempts", "max-missed", "concurrency-max", "pause-after-failures"}

func jobFlags(f *pflag.FlagSet) {
	f.String("cron", "", "5 or 6 fields, such as '0 2 * * *'")
	f.String("every", "", "an interval, such as 15m")
	f.String("at", "", "once, at this time, such as 2027-01-31T09:00:00Z")
	f.String("rrule", "", "a rule of RFC 5545, such as 'FREQ=MONTHLY;BYDAY=-1FR'")
	f.String("url", "", "where runs go by HTTP")
	f.String("method", "", "of HTTP (default POST)")
	f.StringArray("header", nil, "of HTTP, 'Name: value'; may be repeated")
	f.String("target", "", "another kind of target than http")
	f.String("target-config", "", "settings of the target as JSON, or @FILE")
	f.String("payload", "", "JSON that is sent with each run, or @FILE")
	f.StringArray("label", nil, "key=value; may be repeated")
	for _, x := range fieldFlags {
		switch {
		case len(x.words) > 0:
			choiceFlag(f, x.flag, x.help, x.words...)
		case slices.Contains(numberFields, x.flag):
			f.Int(x.flag, 0, x.help)
		default:
			f.String(x.flag, "", x.help)
		}
	}
	f.SortFlags = false
}

// setFields writes the flags that are fields into a job.
func setFields(f *pflag.FlagSet, job object) error {
	for _, x := range fieldFlags {
		if !f.Changed(x.flag) {
			continue
		}
		in, path := job, strings.Split(x.path, ".")
		for _, name := range path[:len(path)-1] {
			if text, ok := in[name].(string); ok {
				return usagef("--%s needs a schedule that is written as an object: {cron: %q}", x.flag, text)
			}
			in = within(in, name)
		}
		in[path[len(path)-1]] = f.Lookup(x.flag).Value.String()
		if slices.Contains(numberFields, x.flag) {
			in[path[len(path)-1]], _ = f.GetInt(x.flag)
		}
	}
	return nil
}

// anyJobFlag says whether one of them was given.
func anyJobFlag(f *pflag.FlagSet) (given bool) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	jobFlags(known)
	known.VisitAll(func(k *pflag.Flag) { given = given || f.Changed(k.Name) })
	return given
}

// object is JSON that is being put together.
type object = map[string]any

// within returns the object in a field, made if there is none.
func within(o object, name string) object {
	inner, ok := o[name].(object)
	if !ok {
		inner = object{}
		o[name] = inner
	}
	return inner
}

// setFlags writes the flags that were given into a job.
func setFlags(f *pflag.FlagSet, job object) error {
	kinds := 0
	for _, kind := range scheduleFlags {
		if f.Changed(kind) {
			if kinds++; kinds > 1 {
				return usagef("a job has one schedule; use one of --cron, --every, --at and --rrule")
			}
			// What is not of the old kind stays: the zone, calendars, start and end.
			s, ok := job["schedule"].(object)
			if !ok {
				s = object{}
			}
			for _, other := range append(scheduleFlags, "anchor") {
				delete(s, other)
			}
			s[kind], _ = f.GetString(kind)
			job["schedule"] = s
		}
	}
	if err := setFields(f, job); err != nil {
		return err
	}
	if labels, _ := f.GetStringArray("label"); len(labels) > 0 {
		for _, l := range labels {
			key, value, ok := strings.Cut(l, "=")
			if !ok || key == "" {
				return usagef("--label %s: write key=value", l)
			}
			within(job, "labels")[key] = value
		}
	}
	if f.Changed("payload") {
		text, _ := f.GetString("payload")
		p, err := readPayload(text)
		if err != nil {
			return err
		}
		job["payload"] = p
	}
	return setTarget(f, job)
}

func setTarget(f *pflag.FlagSet, job object) error {
	if f.Changed("target") {
		within(job, "target")["kind"], _ = f.GetString("target")
	}
	if f.Changed("target-config") {
		text, _ := f.GetString("target-config")
		raw, err := readPayload(text)
		if err != nil {
			return err
		}
		if within(job, "target")["config"], err = decodeObject(raw); err != nil {
			return usagef("--target-config must be an object: %w", err)
		}
	}
	for _, name := range []string{"url", "method"} {
		if f.Changed(name) {
			within(job, "target")["kind"] = "http"
			within(within(job, "target"), "config")[name], _ = f.GetString(name)
		}
	}
	headers, _ := f.GetStringArray("header")
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usagef("--header %s: write 'Name: value'", h)
		}
		within(within(within(job, "target"), "config"), "headers")[name] = strings.TrimSpace(value)
	}
	return nil
}

// readPayload reads JSON from a flag, or from the file that it names.
func readPayload(text string) (json.RawMessage, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(name) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	if !json.Valid([]byte(text)) {
		return nil, usagef("%.60q is not JSON; a text is JSON in double quotes: '\"text\"'", text)
	}
	return json.RawMessage(text), nil
}

func newJobCreate() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a job", Args: wants(0, 1),
		Long: `Create a job from flags, or from a YAML file with -f. What is left out has its
default. To create many, or to change what is there, use belfry apply.`,
		Example: `  belfry job create report --cron '0 2 * * *' --tz Europe/Berlin --url https://example.com/report
  belfry job create ping --every 15m --url https://example.com/ping --method GET --label team=web
  belfry job create party --at 2027-01-31T09:00:00Z --url https://example.com/cake --payload '{"guests":7}'
  belfry job create -f report.yaml`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			job, err := newDefinition(r.cmd, args, file)
			if err != nil {
				return err
			}
			var raw []byte
			if err := r.Call(ctx, belfry.Request{Method: http.MethodPost, Path: "/jobs", Body: job}, &raw); err != nil {
				return err
			}
			return r.show(raw, func() error {
				j, err := view[jobView](raw)
				if err != nil {
					return err
				}
				r.say("%s %s %s", green.Render("created"), j.Name, faint.Render(j.ID))
				if j.NextDueAt != nil {
					r.say("next due %s", moment(j.NextDueAt, j.zone()))
				}
				return nil
			})
		}),
	}
	jobFlags(cmd.Flags())
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML or JSON file with one job, or - for the standard input")
	return cmd
}

// newDefinition is a job as its flags or its file say.
func newDefinition(cmd *cobra.Command, args []string, file string) (object, error) {
	job := object{}
	if file != "" {
		jobs, err := readJobs(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		if len(jobs) != 1 {
			return nil, usagef("%s has %d jobs; belfry apply -f takes many", file, len(jobs))
		}
		if job, err = decodeObject(jobs[0].raw); err != nil {
			return nil, err
		}
	}
	if len(args) == 1 {
		job["name"] = args[0]
	}
	if job["name"] == nil {
		return nil, usagef("a job needs a name: belfry job create NAME --cron … --url …")
	}
	if err := setFlags(cmd.Flags(), job); err != nil {
		return nil, err
	}
	if job["schedule"] == nil {
		return nil, usagef("when does it run? Use one of --cron, --every, --at and --rrule")
	}
	if job["target"] == nil {
		return nil, usagef("where do its runs go? Use --url, or --target and --target-config")
	}
	return job, nil
}

// decodeObject keeps numbers as they were written.
func decodeObject(raw []byte) (object, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	o := object{}
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("it is not an object: %w", err)
	}
	return o, nil
}
