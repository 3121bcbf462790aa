package job_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func valid() job.Definition {
	return job.Definition{
		Name: "Nightly report – Zürich", Schedule: schedule.Spec{Cron: "0 3 * * *"}, Target: job.Target{Kind: "http"},
	}
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	d := valid().WithDefaults()
	require.Equal(t, "default", d.Queue)
	require.Equal(t, job.Policy{
		Retry: job.Retry{
			MaxAttempts: 3, Backoff: "exponential", Base: job.Duration(5 * time.Second),
			Cap: job.Duration(15 * time.Minute), Jitter: 0.2,
		},
		Missed: job.Missed{
			Policy: "once", CatchUpWindow: job.Duration(30 * time.Minute), Max: 100, Pace: job.Duration(time.Second),
			Paused: "skip", Created: "once",
		},
		Overlap: "skip", Timeout: job.Duration(30 * time.Second), ReportTimeout: job.Duration(time.Hour),
		Delivery: "at_least_once", KeepFinishedFor: job.Duration(24 * time.Hour),
	}, d.Policy)
	require.Equal(t, d, d.WithDefaults(), "a second time changes nothing")
	require.NoError(t, d.Validate())
	require.NoError(t, valid().Validate())
}

func TestALongBaseRaisesTheDefaultCap(t *testing.T) {
	t.Parallel()
	d := valid()
	d.Retry.Base = job.Duration(time.Hour)
	require.NoError(t, d.Validate())
	require.Equal(t, d.Retry.Base, d.WithDefaults().Retry.Cap)
}

func TestDefinitionSurvivesJSON(t *testing.T) {
	t.Parallel()
	d := valid().WithDefaults()
	d.Labels = map[string]string{"team": "billing"}
	data, err := json.Marshal(d)
	require.NoError(t, err)
	require.Contains(t, string(data), `"timeout":"30s"`)
	var back job.Definition
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, d, back)
}

func TestValidateNamesFieldProblemAndFix(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range 33 {
		labels["k"+strconv.Itoa(i)] = ""
	}
	h := job.Duration(time.Hour)
	for want, change := range map[string]func(*job.Definition){
		"name: it is empty; give the job a name": func(d *job.Definition) { d.Name = "" },
		"name: 201 characters; at most 200 are taken; shorten it; labels carry the rest": func(d *job.Definition) {
			d.Name = strings.Repeat("é", 201)
		},
		`name: "a\nb" has characters that cannot be seen; use`: func(d *job.Definition) { d.Name = "a\nb" },
		`name: " a" has characters`:                            func(d *job.Definition) { d.Name = " a" },
		`name: "\xff" has characters`:                          func(d *job.Definition) { d.Name = "\xff" },
		"labels: 33 labels; at most 32":                        func(d *job.Definition) { d.Labels = labels },
		`labels: "-a" is not a label key`: func(d *job.Definition) {
			d.Labels = map[string]string{"-a": "b"}
		},
		`labels: "" is not a label key`: func(d *job.Definition) {
			d.Labels = map[string]string{"": "b"}
		},
		`labels: "aaaa`: func(d *job.Definition) {
			d.Labels = map[string]string{strings.Repeat("a", 64): "b"}
		},
		"labels.a: the value is too long": func(d *job.Definition) {
			d.Labels = map[string]string{"a": strings.Repeat("b", 201)}
		},
		`queue: "Upper" is not a queue name`: func(d *job.Definition) {
			d.Queue = "Upper"
		},
		"priority: 10 is out of range; use 0 to 9": func(d *job.Definition) { d.Priority = 10 },
		"priority: -1 is out of range":             func(d *job.Definition) { d.Priority = -1 },
		"payload: 262145 bytes; at most 262144": func(d *job.Definition) {
			d.Payload = json.RawMessage(strings.Repeat("1", 256<<10+1))
		},
		"payload: it is not valid JSON; quote it if it is a string": func(d *job.Definition) {
			d.Payload = json.RawMessage(`hello`)
		},
		"target.kind: it is empty; say where runs go, for example http": func(d *job.Definition) { d.Target.Kind = "" },
		`target.kind: "HTTP" is not the name of a kind`: func(d *job.Definition) {
			d.Target.Kind = "HTTP"
		},
		"target.config: it is not valid JSON; write an object": func(d *job.Definition) {
			d.Target.Config = json.RawMessage(`{`)
		},
		"target.config: 65537 bytes; at most 65536": func(d *job.Definition) {
			d.Target.Config = json.RawMessage(strings.Repeat(" ", 64<<10+1))
		},
		"schedule: 0 of at, every, cron and rrule are set; set exactly": func(d *job.Definition) {
			d.Schedule = schedule.Spec{}
		},
		`schedule.timezone: unknown time zone "Mars/Base"; use an IANA`: func(d *job.Definition) {
			d.Schedule.Timezone = "Mars/Base"
		},
		"retry.max_attempts: 101 is out of range; use 1 to 100": func(d *job.Definition) { d.Retry.MaxAttempts = 101 },
		"retry.max_attempts: -1 is out of range":                func(d *job.Definition) { d.Retry.MaxAttempts = -1 },
		`retry.backoff: unknown value "quick"; use none, fixed, linear or exponential`: func(d *job.Definition) {
			d.Retry.Backoff = "quick"
		},
		"retry.base: 25h is out of range; use 1ms to 1d": func(d *job.Definition) { d.Retry.Base = 25 * h },
		"retry.cap: 8d is out of range; use 1ms to 7d":   func(d *job.Definition) { d.Retry.Cap = 8 * 24 * h },
		"retry.cap: 1s is less than base 5s; raise cap or lower base": func(d *job.Definition) {
			d.Retry.Cap = job.Duration(time.Second)
		},
		"retry.jitter: 1.5 is not a part; use a number above 0, up to 1": func(d *job.Definition) {
			d.Retry.Jitter = 1.5
		},
		"retry.jitter: NaN is not a part":  func(d *job.Definition) { d.Retry.Jitter = math.NaN() },
		"retry.jitter: -0.5 is not a part": func(d *job.Definition) { d.Retry.Jitter = -0.5 },
		`missed.policy: unknown value "some"; use skip, once or all`: func(d *job.Definition) {
			d.Missed.Policy = "some"
		},
		`missed.paused: unknown value "some"`: func(d *job.Definition) {
			d.Missed.Paused = "some"
		},
		`missed.created: unknown value "some"`: func(d *job.Definition) {
			d.Missed.Created = "some"
		},
		"missed.catch_up_window: 169h is out of range; use 1s to 7d": func(d *job.Definition) {
			d.Missed.CatchUpWindow = 169 * h
		},
		"missed.max: 10001 is out of range; use 1 to 10000": func(d *job.Definition) { d.Missed.Max = 10_001 },
		"missed.pace: 2h is out of range; use 1ms to 1h":    func(d *job.Definition) { d.Missed.Pace = 2 * h },
		`overlap: unknown value "maybe"; use skip, queue, queue_all, allow or replace`: func(d *job.Definition) {
			d.Overlap = "maybe"
		},
		`delivery: unknown value "exactly_once"; use at_least_once or at_most_once`: func(d *job.Definition) {
			d.Delivery = "exactly_once"
		},
		"timeout: 500ms is out of range; use 1s to 1d": func(d *job.Definition) {
			d.Timeout = job.Duration(500 * time.Millisecond)
		},
		"timeout: 25h is out of range": func(d *job.Definition) { d.Timeout = 25 * h },
		"report_timeout: 500ms is out of range; use 1s to 7d": func(d *job.Definition) {
			d.ReportTimeout = job.Duration(500 * time.Millisecond)
		},
		"deadline: -1s is out of range; use 1s to 366d": func(d *job.Definition) {
			d.Deadline = -job.Duration(time.Second)
		},
		"deadline: 1m is not longer than the schedule's jitter 5m; raise": func(d *job.Definition) {
			d.Deadline, d.Schedule.Jitter = h/60, "5m"
		},
		"pause_after_failures: -1 is negative; use 0 or more; 0 means never": func(d *job.Definition) {
			d.PauseAfterFailures = -1
		},
		"keep_finished_for: 367d is out of range; use 1s to 366d": func(d *job.Definition) {
			d.KeepFinishedFor = 367 * 24 * h
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			d := valid()
			change(&d)
			problems := problem.All(d.Validate())
			require.Len(t, problems, 1)
			require.Contains(t, problems[0].Error(), want)
			require.NotEmpty(t, problems[0].Field)
			require.NotEmpty(t, problems[0].Problem)
			require.NotEmpty(t, problems[0].Fix)
		})
	}
}

func TestValidateReturnsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	d := job.Definition{
		Priority: 99, Labels: map[string]string{"b!": "", "a!": ""},
		Policy: job.Policy{Retry: job.Retry{MaxAttempts: -1}},
	}
	err := d.Validate()
	var fields []string
	for _, p := range problem.All(err) {
		fields = append(fields, p.Field)
	}
	require.Equal(t, []string{"name", "labels", "labels", "schedule", "target.kind", "priority", "retry.max_attempts"},
		fields)
	require.Less(t, strings.Index(err.Error(), `"a!"`), strings.Index(err.Error(), `"b!"`),
		"in an order that does not change")
}

func TestTheLimitsThemselvesAreValid(t *testing.T) {
	t.Parallel()
	d := valid()
	d.Name = strings.Repeat("n", 200)
	d.Labels = map[string]string{strings.Repeat("k", 63): strings.Repeat("v", 200), "example.com/team": ""}
	d.Payload = json.RawMessage(`"` + strings.Repeat("x", 256<<10-2) + `"`)
	d.Priority = 9
	d.Policy = job.Policy{
		Retry:   job.Retry{MaxAttempts: 100, Base: job.MaxBase, Cap: job.MaxCap, Jitter: -1},
		Missed:  job.Missed{CatchUpWindow: job.MaxCatchUpWindow, Max: job.MaxMissed, Pace: job.MaxPace},
		Timeout: job.MaxTimeout, ReportTimeout: job.MaxReportTimeout, Deadline: job.MaxDeadline,
		KeepFinishedFor: job.MaxKeepFinished,
	}
	require.NoError(t, d.Validate())
	d.Retry.Jitter = 1
	require.NoError(t, d.Validate())
}
