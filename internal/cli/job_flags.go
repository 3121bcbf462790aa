package cli

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/cli/yamljson"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// scheduleFlags are the kinds of schedules. A job has one of them. Their names are the API's.
var scheduleFlags = []string{"cron", "every", "at", "rrule"}

// fieldFlag is a flag that sets one field of the job.
type fieldFlag struct {
	flag, path, help string
	words            []string // the values that it takes; none: any
	number           bool
}

var fieldFlags = []fieldFlag{
	{flag: "description", path: "description", help: "what the job is for"},
	{flag: "owner", path: "owner", help: "the person or team that answers for it"},
	{flag: "tz", path: "schedule.timezone", help: "IANA time zone of the schedule (default UTC)"},
	{flag: "start-at", path: "schedule.start_at", help: "nothing before this time, RFC 3339"},
	{flag: "end-at", path: "schedule.end_at", help: "nothing at or after this time, RFC 3339"},
	{flag: "jitter", path: "schedule.jitter", help: "each run starts up to this much later, such as 30s"},
	{
		flag: "gap", path: "schedule.dst.gap",
		help:  "times that a change of the clock leaves out: %s (default shift)",
		words: []string{"shift", "skip"},
	},
	{
		flag: "fold", path: "schedule.dst.fold",
		help:  "times that happen twice: %s (default first)",
		words: []string{"first", "second", "both"},
	},
	{flag: "queue", path: "queue", help: "the queue of its runs (default \"default\")"},
	{
		flag: "overlap", path: "overlap",
		help:  "when a run is due while another is live: %s (default skip)",
		words: []string{"skip", "queue", "queue_all", "allow", "replace"},
	},
	{flag: "timeout", path: "timeout", help: "maximum duration of one attempt (default 30s)"},
	{
		flag: "report-timeout", path: "report_timeout",
		help: "how long a target that accepted a run may take to report on it (default 1h)",
	},
	{flag: "deadline", path: "deadline", help: "skip a run that could not start within this time after its due time"},
	{
		flag: "idempotency-key", path: "idempotency_key",
		help: "CEL expression for the key that the target gets," +
			" such as 'job.name + \"/\" + string(due_at)' (default the run's id)",
	},
	{
		flag: "delivery", path: "delivery",
		help:  "%s (default at_least_once)",
		words: []string{"at_least_once", "at_most_once"},
	},
	{flag: "priority", path: "priority", help: "0 to 9, higher first", number: true},
	{flag: "concurrency-key", path: "concurrency.key", help: "runs of all jobs with this key wait for each other"},
	{
		flag: "concurrency-max", path: "concurrency.max",
		help:   "maximum number of them that are live at the same time (default 1)",
		number: true,
	},
	{flag: "max-attempts", path: "retry.max_attempts", help: "maximum number of attempts of a run (default 3)", number: true},
	{
		flag: "backoff", path: "retry.backoff",
		help:  "how the delay between attempts grows: %s (default exponential)",
		words: []string{"none", "fixed", "linear", "exponential"},
	},
	{flag: "retry-base", path: "retry.base", help: "the first delay between attempts (default 5s)"},
	{flag: "retry-cap", path: "retry.cap", help: "the longest delay between attempts (default 15m)"},
	{
		flag: "missed", path: "missed.policy",
		help:  "after an outage: %s (default once)",
		words: []string{"skip", "once", "all"},
	},
	{
		flag: "catch-up-window", path: "missed.catch_up_window",
		help: "missed occurrences that are older are skipped (default 30m)",
	},
	{
		flag: "max-missed", path: "missed.max",
		help:   "with --missed all: the maximum number that run (default 100)",
		number: true,
	},
	{
		flag: "missed-paused", path: "missed.paused",
		help:  "occurrences of a pause, when it ends: %s (default skip)",
		words: []string{"skip", "once", "all"},
	},
	{
		flag: "pause-after-failures", path: "pause_after_failures",
		help:   "pause the job after this many failed runs in a row",
		number: true,
	},
	{flag: "keep-finished-for", path: "keep_finished_for", help: "how long a finished one-off is kept (default 24h)"},
}

// jobFlags adds the flags that describe a job.
func jobFlags(f *pflag.FlagSet) {
	f.String("cron", "", "5 or 6 fields, such as '0 2 * * *'")
	f.String("every", "", "an interval, such as 15m")
	f.String("at", "", "once, at this time, such as 2027-01-31T09:00:00Z; in --tz if it has no offset")
	f.Bool("allow-past", false, "accept a time for --at that has passed; missed.created decides whether it runs")
	f.String("rrule", "", "a rule of RFC 5545, such as 'FREQ=MONTHLY;BYDAY=-1FR'")
	f.String("anchor", "", "with --every or --rrule: count from this time, such as 2027-01-01T00:30:00Z")
	f.StringArray("calendar", nil,
		"when it does not run, as JSON or @FILE: '{\"weekdays\":[\"sat\",\"sun\"]}'; may be repeated")
	f.String("url", "", "where runs go by HTTP")
	f.String("method", "", "HTTP method (default POST)")
	f.StringArray("header", nil, "HTTP header, 'Name: value', not for secrets; may be repeated")
	f.String("target", "", "another kind of target than http")
	f.String("target-config", "", "settings of the target as JSON, or @FILE")
	f.String("payload", "", "JSON that is sent with each run, or @FILE")
	f.StringArray("label", nil, "key=value; may be repeated")
	for _, x := range fieldFlags {
		switch {
		case len(x.words) > 0:
			usage.NewChoice(f, x.flag, x.help, x.words...)
		case x.number:
			f.Int(x.flag, 0, x.help)
		default:
			f.String(x.flag, "", x.help)
		}
	}
	f.SortFlags = false
}

// setFields writes the flags of fieldFlags into a job.
func setFields(f *pflag.FlagSet, job object) error {
	for _, x := range fieldFlags {
		if !f.Changed(x.flag) {
			continue
		}
		in, path := job, strings.Split(x.path, ".")
		for _, name := range path[:len(path)-1] {
			if text, ok := in[name].(string); ok {
				return usage.Errorf("--%s needs a schedule that is written as an object: {cron: %q}", x.flag, text)
			}
			in = objectIn(in, name)
		}
		in[path[len(path)-1]] = f.Lookup(x.flag).Value.String()
		if x.number {
			in[path[len(path)-1]], _ = f.GetInt(x.flag)
		}
	}
	return nil
}

// anyJobFlag reports whether a flag of jobFlags was given.
func anyJobFlag(f *pflag.FlagSet) (given bool) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	jobFlags(known)
	known.VisitAll(func(k *pflag.Flag) { given = given || f.Changed(k.Name) })
	return given
}

// object is a JSON object under construction.
type object = map[string]any

// objectIn returns the object in a field, and creates it if there is none.
func objectIn(o object, name string) object {
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
				return usage.Errorf("a job has one schedule; use one of --cron, --every, --at and --rrule")
			}
			// Replace only the kind: the zone, calendars, start and end stay.
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
	if err := checkPast(f, job); err != nil {
		return err
	}
	if err := setSchedule(f, job); err != nil {
		return err
	}
	if labels, _ := f.GetStringArray("label"); len(labels) > 0 {
		for _, l := range labels {
			key, value, ok := strings.Cut(l, "=")
			if !ok || key == "" {
				return usage.Errorf("--label %s: write key=value", l)
			}
			objectIn(job, "labels")[key] = value
		}
	}
	if f.Changed("payload") {
		text, _ := f.GetString("payload")
		p, err := readPayload("payload", text)
		if err != nil {
			return err
		}
		job["payload"] = p
	}
	return setTarget(f, job)
}

// checkPast rejects a time for --at that has passed, which is usually a typing error.
func checkPast(f *pflag.FlagSet, job object) error {
	if f.Changed("allow-past") && !f.Changed("at") {
		return usage.Errorf("--allow-past is only for --at; leave it out")
	}
	if allowed, _ := f.GetBool("allow-past"); allowed || !f.Changed("at") {
		return nil
	}
	at, _ := f.GetString("at")
	zone, _ := objectIn(job, "schedule")["timezone"].(string)
	if !hasPassed(at, zone) {
		return nil
	}
	return usage.Errorf("--at %s has passed; use a later time, or --allow-past if you mean it", at)
}

// hasPassed reports whether the time of a one-off has passed. The server explains a time that is not valid.
func hasPassed(at, zone string) bool {
	s, err := schedule.New(schedule.Spec{At: at, Timezone: zone}, "")
	if err != nil {
		return false
	}
	due, err := s.Next(schedule.BeforeAll)
	return err == nil && !due.After(clock.Now())
}

// setSchedule writes --anchor and --calendar into a job.
func setSchedule(f *pflag.FlagSet, job object) error {
	if !f.Changed("anchor") && !f.Changed("calendar") {
		return nil
	}
	if _, ok := job["schedule"].(string); ok {
		return usage.Errorf("--anchor and --calendar need a schedule that is written as an object: {cron: …}")
	}
	s := objectIn(job, "schedule")
	if f.Changed("anchor") {
		s["anchor"], _ = f.GetString("anchor")
	}
	texts, _ := f.GetStringArray("calendar")
	var calendars []any
	for _, text := range texts {
		raw, err := readPayload("calendar", text)
		if err != nil {
			return err
		}
		c, err := yamljson.DecodeObject(raw)
		if err != nil {
			return usage.Errorf("--calendar must be an object: %w", err)
		}
		calendars = append(calendars, c)
	}
	if calendars != nil {
		s["calendars"] = calendars
	}
	return nil
}

func setTarget(f *pflag.FlagSet, job object) error {
	if f.Changed("target") {
		objectIn(job, "target")["kind"], _ = f.GetString("target")
	}
	if f.Changed("target-config") {
		text, _ := f.GetString("target-config")
		raw, err := readPayload("target-config", text)
		if err != nil {
			return err
		}
		if objectIn(job, "target")["config"], err = yamljson.DecodeObject(raw); err != nil {
			return usage.Errorf("--target-config must be an object: %w", err)
		}
	}
	for _, name := range []string{"url", "method"} {
		if f.Changed(name) {
			objectIn(job, "target")["kind"] = "http"
			objectIn(objectIn(job, "target"), "config")[name], _ = f.GetString(name)
		}
	}
	headers, _ := f.GetStringArray("header")
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usage.Errorf("--header %s: write 'Name: value'", h)
		}
		objectIn(objectIn(objectIn(job, "target"), "config"), "headers")[name] = strings.TrimSpace(value)
	}
	return nil
}

// readPayload reads JSON from a flag, or from the file that it names.
func readPayload(flag, text string) (json.RawMessage, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(name) //nolint:gosec // the user names it
		if err != nil {
			return nil, usage.Errorf("the file of @%s cannot be read: %w; is its name right?", name, err)
		}
		text = string(b)
	}
	var value json.RawMessage
	err := json.Unmarshal([]byte(text), &value)
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, usage.Errorf("--%s is not JSON at character %d: %w; strings and names are in double quotes: '{\"a\":\"b\"}'",
			flag, wrong.Offset, err)
	}
	return value, err
}
