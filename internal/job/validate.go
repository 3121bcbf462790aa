package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// The bounds of a definition.
const (
	MaxName        = 200 // characters
	MaxDescription = 1000
	MaxOwner       = 200
	MaxLabels      = 32
	MaxLabelKey    = 63  // characters
	MaxLabelValue  = 200 // characters
	MaxPriority    = 9
	MaxPayload     = 256 << 10 // bytes
	MaxConfig      = 64 << 10  // bytes, of a target

	MaxAttempts      = 100
	MaxBase          = Duration(24 * time.Hour)
	MaxCap           = 7 * day
	MaxCatchUpWindow = 7 * day
	MaxMissed        = 10_000
	MaxPace          = Duration(time.Hour)
	MinTimeout       = Duration(time.Second)
	MaxTimeout       = day     // an attempt occupies a slot of its node for this long
	MaxReportTimeout = 7 * day // less than access.ReportLife
	MaxDeadline      = 366 * day
	MaxKeepFinished  = 366 * day
)

var (
	labelKeyForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)
	queueForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	kindForm     = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
)

// QueueNameFix says how to write the name of a queue or a secret.
const QueueNameFix = "use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"

// ValidQueueName reports whether a string is a valid queue name.
func ValidQueueName(name string) bool { return queueForm.MatchString(name) }

// Validate returns all problems of a definition at once, so that its author can fix them together: see [problem.All].
// Fields that are left out have their defaults.
func (d Definition) Validate() error {
	d = d.WithDefaults()
	var c problem.Checker
	CheckName(&c, d.Name)
	checkText(&c, "description", d.Description, MaxDescription)
	checkText(&c, "owner", d.Owner, MaxOwner)
	checkLabels(&c, d.Labels)
	checkSchedule(&c, d.Schedule)
	checkTarget(&c, d.Target)
	checkPayload(&c, d.Payload)
	if !queueForm.MatchString(d.Queue) {
		c.Add("queue", problem.Quote(d.Queue)+" is not a queue name", QueueNameFix)
	}
	problem.Between(&c, "priority", d.Priority, [2]int16{0, MaxPriority})
	checkIdempotencyKey(&c, d.IdempotencyKey)
	checkRetry(&c, d.Retry)
	checkMissed(&c, d.Missed)
	problem.OneOf(&c, "overlap", d.Overlap, OverlapSkip, OverlapQueue, OverlapQueueAll, OverlapAllow, OverlapReplace)
	problem.OneOf(&c, "delivery", d.Delivery, AtLeastOnce, AtMostOnce)
	problem.Between(&c, "timeout", d.Timeout, [2]Duration{MinTimeout, MaxTimeout})
	problem.Between(&c, "report_timeout", d.ReportTimeout, [2]Duration{MinTimeout, MaxReportTimeout})
	checkDeadline(&c, d.Deadline, d.Schedule.Jitter)
	checkConcurrency(&c, d.Concurrency)
	problem.AtLeastZero(&c, "pause_after_failures", d.PauseAfterFailures, "0 means never")
	problem.Between(&c, "keep_finished_for", d.KeepFinishedFor, [2]Duration{Duration(time.Second), MaxKeepFinished})
	return c.Err()
}

// CheckName checks the name of a job, a key or a worker.
func CheckName(c *problem.Checker, name string) {
	n := utf8.RuneCountInString(name)
	switch {
	case n == 0:
		c.Add("name", "it is empty", "give the job a name")
	case n > MaxName:
		c.Add("name", fmt.Sprintf("%d characters; at most %d are taken", n, MaxName),
			"shorten it; labels carry the rest")
	case !printable(name) || strings.TrimSpace(name) != name:
		c.Add("name", problem.Quote(name)+" has characters that cannot be seen",
			"use printable characters, and no space at either end")
	}
}

// printable reports whether a string is valid UTF-8 of visible characters.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// checkText checks text for people. Line breaks are allowed.
func checkText(c *problem.Checker, field, text string, most int) {
	visible := strings.NewReplacer("\n", "", "\t", "").Replace(text)
	switch n := utf8.RuneCountInString(text); {
	case n > most:
		c.Add(field, fmt.Sprintf("%d characters; the maximum is %d", n, most), "shorten it")
	case !printable(visible):
		c.Add(field, "it has characters that cannot be seen", "use printable characters")
	}
}

func checkLabels(c *problem.Checker, labels map[string]string) {
	if len(labels) > MaxLabels {
		c.Add("labels", fmt.Sprintf("%d labels; at most %d are taken", len(labels), MaxLabels),
			"put values that you do not filter by into the payload")
		return
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if len(k) > MaxLabelKey || !labelKeyForm.MatchString(k) {
			c.Add("labels", problem.Quote(k)+" is not a label key", fmt.Sprintf("use 1 to %d letters, digits, "+
				"'.', '_', '/' and '-', with a letter or digit at both ends", MaxLabelKey))
			continue
		}
		if v := labels[k]; utf8.RuneCountInString(v) > MaxLabelValue || !printable(v) {
			c.Add("labels."+k, "the value is too long or has characters that cannot be seen",
				fmt.Sprintf("use at most %d printable characters", MaxLabelValue))
		}
	}
}

func checkSchedule(c *problem.Checker, spec schedule.Spec) {
	if _, err := schedule.New(spec, ""); err != nil { // the value of H does not decide whether it is valid
		*c = append(*c, ScheduleProblem(err))
	}
}

// scheduleFixes are for schedule errors that have no fix of their own.
var scheduleFixes = map[string]string{
	"at": "write for example 2027-01-31T09:00:00Z", "every": "write for example 15m, 1h30m or 7d",
	"cron":  "write minute, hour, day of month, month and day of week, for example 0 9 * * 1-5",
	"rrule": "write for example FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17",
}

// ScheduleProblem is an error of a schedule as a problem of a definition.
func ScheduleProblem(err error) *problem.Problem {
	var e *schedule.Error
	switch {
	case !errors.As(err, &e):
		return problem.New("schedule", err.Error(), "write it as in the reference")
	case e.Field == "schedule":
		return problem.New("schedule", e.Problem, e.Fix)
	default:
		fix := orElse(scheduleFixes[e.Field], "write it as in the reference")
		return problem.New("schedule."+e.Field, e.Problem, orElse(e.Fix, fix))
	}
}

func checkTarget(c *problem.Checker, t Target) {
	switch {
	case t.Kind == "":
		c.Add("target.kind", "it is empty", "say where runs go, for example http")
	case !kindForm.MatchString(t.Kind):
		c.Add("target.kind", problem.Quote(t.Kind)+" is not the name of a kind", "write for example http")
	}
	switch {
	case len(t.Config) > MaxConfig:
		c.Add("target.config", fmt.Sprintf("%d bytes; at most %d are taken", len(t.Config), MaxConfig),
			"shorten it; data for the target belongs into the payload")
	case len(t.Config) > 0 && !json.Valid(t.Config):
		c.Add("target.config", "it is not valid JSON", "write an object")
	}
}

func checkPayload(c *problem.Checker, p json.RawMessage) {
	switch {
	case len(p) > MaxPayload:
		c.Add("payload", fmt.Sprintf("%d bytes; at most %d are taken", len(p), MaxPayload),
			"store the data elsewhere and send where it is")
	case len(p) > 0 && !json.Valid(p):
		c.Add("payload", "it is not valid JSON", "quote it if it is a string")
	}
}

func checkRetry(c *problem.Checker, r Retry) {
	problem.Between(c, "retry.max_attempts", r.MaxAttempts, [2]int16{1, MaxAttempts})
	problem.OneOf(c, "retry.backoff", r.Backoff, BackoffNone, BackoffFixed, BackoffLinear, BackoffExponential)
	problem.Between(c, "retry.base", r.Base, [2]Duration{Duration(time.Millisecond), MaxBase})
	problem.Between(c, "retry.cap", r.Cap, [2]Duration{Duration(time.Millisecond), MaxCap})
	if r.Cap > 0 && r.Base > r.Cap {
		c.Add("retry.cap", fmt.Sprintf("%s is less than base %s", r.Cap, r.Base), "raise cap or lower base")
	}
	if r.Jitter != noJitter && !(r.Jitter > 0 && r.Jitter <= 1) { // also not NaN
		c.Add("retry.jitter", fmt.Sprintf("%v is not a part", r.Jitter),
			"use a number above 0, up to 1, or -1 for none")
	}
}

func checkMissed(c *problem.Checker, m Missed) {
	problem.OneOf(c, "missed.policy", m.Policy, MissedSkip, MissedOnce, MissedAll)
	problem.OneOf(c, "missed.paused", m.Paused, MissedSkip, MissedOnce, MissedAll)
	problem.OneOf(c, "missed.created", m.Created, MissedSkip, MissedOnce, MissedAll)
	problem.Between(c, "missed.catch_up_window", m.CatchUpWindow, [2]Duration{Duration(time.Second), MaxCatchUpWindow})
	problem.Between(c, "missed.max", m.Max, [2]int32{1, MaxMissed})
	problem.Between(c, "missed.pace", m.Pace, [2]Duration{Duration(time.Millisecond), MaxPace})
}

// checkDeadline also rejects a deadline that jitter alone can exceed: some runs would always expire.
func checkDeadline(c *problem.Checker, d Duration, jitter string) {
	if d == 0 {
		return
	}
	problem.Between(c, "deadline", d, [2]Duration{Duration(time.Second), MaxDeadline})
	if j, err := schedule.ParseDuration(jitter); err == nil && time.Duration(d) <= j {
		c.Add("deadline", fmt.Sprintf("%s is not longer than the schedule's jitter %s", d, Duration(j)),
			"raise deadline or lower jitter")
	}
}

func checkConcurrency(c *problem.Checker, v Concurrency) {
	switch n := utf8.RuneCountInString(v.Key); {
	case n == 0 && v.Max != 0:
		c.Add("concurrency.key", "it is empty", "name what the runs share, for example customer-42")
	case n > MaxConcurrencyKey || !printable(v.Key):
		c.Add("concurrency.key", problem.Quote(v.Key)+" is too long or has characters that cannot be seen",
			fmt.Sprintf("use at most %d printable characters", MaxConcurrencyKey))
	case n > 0:
		problem.Between(c, "concurrency.max", v.Max, [2]int32{1, MaxRunning})
	}
}
