package why_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/why"
)

func instantOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UTC()
}

// TestExplain has a case for each story: facts, and what the text must contain.
func TestExplain(t *testing.T) {
	t.Parallel()
	at := instantOf(t, "2026-11-10T09:00:00Z")
	daily := schedule.Spec{Cron: "0 10 * * *", Timezone: "Europe/Berlin"}
	// entry gives the ledger one entry at At.
	entry := func(change func(*job.Entry)) func(*why.Facts) {
		return func(f *why.Facts) {
			e := job.Entry{
				Key: job.Key{DueAt: f.At}, Status: job.StatusSucceeded, Version: 1, RunAt: f.At, StartedAt: f.At,
				EndedAt: f.At.Add(2 * time.Second),
				Attempt: 1, Node: "one", Queue: "default",
			}
			change(&e)
			f.Entries = append(f.Entries, e)
		}
	}
	live := func(status job.RunStatus, change ...func(*job.Entry, *why.Facts)) func(*why.Facts) {
		return func(f *why.Facts) {
			f.Now = f.At.Add(time.Second)
			entry(func(e *job.Entry) {
				e.Status, e.EndedAt, e.StartedAt, e.Attempt = status, time.Time{}, time.Time{}, 0
				for _, c := range change {
					c(e, f)
				}
			})(f)
		}
	}
	skip := func(why job.Reason) func(*why.Facts) {
		return entry(func(e *job.Entry) { e.Status, e.Reason, e.Attempt = job.StatusSkipped, why, 0 })
	}
	ended := func(status job.RunStatus, why job.Reason) func(*why.Facts) {
		return entry(func(e *job.Entry) { e.Status, e.Reason = status, why })
	}
	deleted := func(f *why.Facts) { f.Job = nil }

	tests := map[string]struct {
		change func(*why.Facts)
		code   why.Code
		reason job.Reason
		text   []string
	}{
		"succeeded": {
			entry(func(*job.Entry) {}), why.Succeeded, "",
			[]string{
				"succeeded", "until 2026-11-10 10:00:02 CET (09:00:02 UTC)", "on time", "took 2s", "attempt 1 on one",
			},
		},
		"succeeded late, after retries": {entry(func(e *job.Entry) {
			e.Attempt, e.StartedAt = 3, e.RunAt.Add(90*time.Second)
			e.Attempts = []job.AttemptEnd{
				{Number: 1, Outcome: job.Failed}, {Number: 2, Outcome: job.Lost, Message: "session died"},
			}
		}), why.Succeeded, "", []string{"1m30s late", "Attempt 2 was lost: session died."}},
		"caught up": {
			entry(func(e *job.Entry) { e.Origin = job.FromMissed }), why.Succeeded, "",
			[]string{"missed at its time and caught up"},
		},
		"triggered within the second": {
			func(f *why.Facts) {
				f.At = f.At.Add(time.Minute)
				entry(func(e *job.Entry) {
					e.Seq, e.Origin, e.DueAt = 1, job.FromTrigger, e.DueAt.Add(300*time.Millisecond)
				})(f)
			}, why.Succeeded, "",
			[]string{"triggered by hand"},
		},
		"triggered within the second of an occurrence": {
			entry(func(e *job.Entry) {
				e.Seq, e.Origin, e.DueAt = 1, job.FromTrigger, e.DueAt.Add(300*time.Millisecond)
			}),
			why.Unknown, "",
			[]string{"It is missing"},
		},
		"retried": {
			entry(func(e *job.Entry) { e.Origin = job.FromRedrive }), why.Succeeded, "", []string{"retried by hand"},
		},
		"dead": {entry(func(e *job.Entry) {
			e.Status, e.Reason, e.Message, e.DeadLetter = job.StatusFailed, job.ReasonAttempts, "answered 503.", true
		}), why.Failed, job.ReasonAttempts, []string{
			"no attempts were left", "said: answered 503.", "is a dead letter", "redrive the dead letter",
		}},
		"rejected, discarded": {
			entry(func(e *job.Entry) { e.Status, e.Reason, e.Code = job.StatusFailed, job.ReasonRejected, 404 }),
			why.Failed, job.ReasonRejected,
			[]string{"the target rejected it permanently", "has been redriven or discarded"},
		},
		"not sent, so the target did not reject it": {
			ended(job.StatusFailed, job.ReasonRejected), why.Failed, job.ReasonRejected,
			[]string{"with attempt 1 on one: another attempt would fail too"},
		},
		"a worker failed permanently": {
			entry(func(e *job.Entry) { e.Status, e.Reason, e.Worker = job.StatusFailed, job.ReasonRejected, true }),
			why.Failed, job.ReasonRejected,
			[]string{"its worker reported a permanent failure"},
		},
		"a command failed permanently": {func(f *why.Facts) {
			f.Definition.Target.Kind = "command"
			entry(func(e *job.Entry) { e.Status, e.Reason, e.Code = job.StatusFailed, job.ReasonRejected, 3 })(f)
		}, why.Failed, job.ReasonRejected, []string{"another attempt would fail too"}},
		"lost": {ended(job.StatusFailed, job.ReasonLost), why.Failed, job.ReasonLost, []string{"lost repeatedly"}},
		"unknown outcome": {
			ended(job.StatusFailed, job.ReasonUnknownOutcome), why.Failed, job.ReasonUnknownOutcome,
			[]string{"at_most_once"},
		},
		"gone": {ended(job.StatusFailed, job.ReasonGone), why.Failed, job.ReasonGone, []string{"no longer exists"}},
		"cancelled": {
			ended(job.StatusCancelled, job.ReasonCancelled), why.Cancelled, job.ReasonCancelled,
			[]string{"a user requested it"},
		},
		"replaced": {
			ended(job.StatusCancelled, job.ReasonReplaced), why.Cancelled, job.ReasonReplaced, []string{"newer run"},
		},
		"cancelled by delete": {
			ended(job.StatusCancelled, job.ReasonDeleted), why.Cancelled, job.ReasonDeleted, []string{"deleted"},
		},

		"overlap": {skip(job.ReasonOverlap), why.Skipped, job.ReasonOverlap, []string{"still live", "overlap: skip"}},
		"queue limit": {
			skip(job.ReasonOverlapLimit), why.Skipped, job.ReasonOverlapLimit,
			[]string{"1000 runs of the job were already waiting"},
		},
		"expired":          {skip(job.ReasonExpired), why.Skipped, job.ReasonExpired, []string{"deadline, 5m"}},
		"skipped replaced": {skip(job.ReasonReplaced), why.Skipped, job.ReasonReplaced, []string{"newer run"}},
		"was paused": {
			skip(job.ReasonPaused), why.Skipped, job.ReasonPaused,
			[]string{"the job was paused", "missed.paused: skip"},
		},
		"skipped deleted": {
			skip(job.ReasonDeleted), why.Skipped, job.ReasonDeleted, []string{"deleted before it could start"},
		},
		"one of a range of the pause": {entry(func(e *job.Entry) {
			e.Status, e.Reason, e.Count = job.StatusSkipped, job.ReasonPaused, 4
			e.DueAt, e.DueTo = e.DueAt.Add(-48*time.Hour), e.DueAt.Add(24*time.Hour)
		}), why.Skipped, job.ReasonPaused, []string{"one of 4, due from 2026-11-08"}},
		"missed while down, once": {
			func(f *why.Facts) {
				f.Versions[0].Skips = []job.Skip{{From: at, To: at, Count: 1, Reason: job.ReasonMissed}}
			},
			why.Skipped, job.ReasonMissed,
			[]string{"no node served", "once"},
		},
		"missed while down, skip": {func(f *why.Facts) {
			f.Definition.Missed.Policy = job.MissedSkip
			f.Versions[0].Skips = []job.Skip{{From: at, To: at, Count: 1, Reason: job.ReasonMissed}}
		}, why.Skipped, job.ReasonMissed, []string{"missed.policy: skip"}},
		"missed while down, window": {func(f *why.Facts) {
			f.Versions[0].Skips = []job.Skip{{From: at, To: at.Add(24 * time.Hour), Count: 2, Reason: job.ReasonMissedWindow}}
		}, why.Skipped, job.ReasonMissedWindow, []string{"catch_up_window, 30m", "one of 2"}},
		"missed while down, max": {
			func(f *why.Facts) {
				f.Versions[0].Skips = []job.Skip{{From: at, To: at, Count: 1, Reason: job.ReasonMissedMax}}
			}, why.Skipped,
			job.ReasonMissedMax,
			[]string{"missed.max, 100"},
		},

		"progress": {live(job.StatusRunning, func(e *job.Entry, f *why.Facts) {
			p := int16(40)
			e.Attempt, e.StartedAt, e.Percent, e.Progress = 1, f.At, &p, "page 4 of 10"
		}), why.Running, "", []string{"40 % done", "page 4 of 10"}},
		"for a worker": {
			live(job.StatusDue, func(e *job.Entry, _ *why.Facts) { e.Handler = "greet" }), why.Due, "",
			[]string{"no worker asks for runs of queue default", "Start a worker for queue default with the handler greet"},
		},
		"for a busy worker": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { e.Handler, f.Workers = "greet", true }), why.Due, "",
			[]string{"waits for a worker", "knows the handler greet", "start more workers"},
		},
		"queue paused, expired": {
			live(job.StatusDue, func(_ *job.Entry, f *why.Facts) { f.QueuePaused, f.Now = f.At, f.At.Add(6*time.Minute) }),
			why.QueuePaused, "",
			[]string{"skipped as expired", "its deadline, 5m after it was due, has passed"},
		},
		"deferred, expired": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) {
				e.Attempt, e.Message, f.Now = 1, "https://x is full", f.At.Add(6*time.Minute)
			}), why.Deferred, "", []string{"https://x is full", "skipped as expired"},
		},
		"queue paused, failed and deferred": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) {
				e.Attempt, e.Message, e.Attempts = 2, "https://x is full", []job.AttemptEnd{{Number: 1}}
				f.QueuePaused, f.Now = f.At, f.At.Add(6*time.Minute)
			}), why.QueuePaused, "", []string{"its due runs then start"},
		},
		"queue paused, backfilled": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) {
				e.Origin, f.QueuePaused, f.Now = job.FromBackfill, f.At, f.At.Add(6*time.Minute)
			}), why.QueuePaused, "", []string{"its due runs then start"},
		},
		"created later, on another day in UTC": {
			func(f *why.Facts) { f.Created = f.At.Add(14*time.Hour + 30*time.Minute) }, why.CreatedLater, "",
			[]string{"created at 2026-11-11 00:30:00 CET (2026-11-10 23:30:00 UTC)"},
		},
		"running": {
			live(job.StatusRunning, func(e *job.Entry, f *why.Facts) { e.Attempt, e.StartedAt = 1, f.At }), why.Running,
			"",
			[]string{"is running: attempt 1", "on one"},
		},
		"accepted": {
			live(job.StatusAccepted, func(e *job.Entry, f *why.Facts) { e.ExpiresAt = f.At.Add(time.Minute) }),
			why.Accepted, "",
			[]string{"accepted", "10:01:00"},
		},
		"planned": {
			live(job.StatusPending, func(e *job.Entry, f *why.Facts) { f.Now = f.At.Add(-30 * time.Second) }),
			why.Planned, "",
			[]string{"not due yet", "in 30s"},
		},
		"held": {live(job.StatusPending, func(e *job.Entry, f *why.Facts) {
			e.Attempt, e.RunAt, e.Message = 1, f.At.Add(time.Minute), "https://x is full"
		}), why.Deferred, "", []string{"https://x is full", "10:01:00", "does not count as an attempt"}},
		"retrying": {
			live(job.StatusRetrying, func(e *job.Entry, f *why.Facts) { e.Attempt, e.RunAt = 1, f.At.Add(time.Minute) }),
			why.Retrying, "",
			[]string{"Attempt 1 failed", "10:01:00"},
		},
		"queue paused": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.QueuePaused, f.QueueNote = f.At, "repairs" }),
			why.QueuePaused, "",
			[]string{"queue default has been paused", "(repairs)"},
		},
		"waits a turn": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.Others = 1 }), why.Behind, "",
			[]string{"waits for another run"},
		},
		"waits for older ones": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.Ahead = 3 }), why.Behind, "",
			[]string{"waits for older runs of the job, which are due too: 3 (overlap:", "older ones have ended", "--state due"},
		},
		"triggered, waits for older ones": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.Ahead, e.Origin = 3, job.FromTrigger }), why.Behind, "",
			[]string{"which are due too: 3. It was triggered by hand."},
		},
		"held by a restore": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.HeldUntil = e.DueAt.Add(1) }), why.Due, "",
			[]string{"restored to an earlier time", "belfry restore status"},
		},
		"held no more": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.HeldUntil = e.DueAt }), why.Due, "",
			[]string{"free slot"},
		},
		"waits a slot": {
			live(job.StatusDue, func(*job.Entry, *why.Facts) {}), why.Due, "",
			[]string{"waits for a free slot on its node, or for its namespace's share of them."},
		},
		"due, no nodes": {
			live(job.StatusDue, func(e *job.Entry, f *why.Facts) { f.Owned = false }), why.Due, "",
			[]string{"no live node"},
		},

		"not due yet": {func(f *why.Facts) { f.Now = f.At.Add(-time.Hour) }, why.NotDue, "", []string{"due in 1h"}},
		"paused, past": {func(f *why.Facts) {
			f.Job.State, f.Job.PausedAt, f.Job.PausedBy, f.Job.Note = job.Paused, at.Add(-time.Hour), "key:ops", "broken"
		}, why.Paused, "", []string{"paused since", "It did not run", "by key:ops (broken)", "missed.paused: skip"}},
		"paused, to come": {func(f *why.Facts) {
			f.Job.State, f.Job.PausedAt, f.Now = job.Paused, at.Add(-2*time.Hour), f.At.Add(-time.Hour)
		}, why.Paused, "", []string{"It will not run: the job has been paused", "resume the job before that time"}},
		"paused until later, past": {func(f *why.Facts) {
			f.Job.State, f.Job.PausedAt, f.Job.PausedUntil = job.Paused, at.Add(-time.Hour), at.Add(time.Hour)
		}, why.Paused, "", []string{
			"It did not run", "until 2026-11-10 11:00:00 CET", "Belfry resumes the job at 2026-11-10 11:00:00 CET",
		}},
		"paused until then": {func(f *why.Facts) {
			f.Job.State, f.Job.PausedAt, f.Job.PausedUntil = job.Paused, at.Add(-2*time.Hour), at
			f.Now = f.At.Add(-time.Hour)
		}, why.NotDue, "", []string{"due in 1h", "paused until 2026-11-10 10:00:00 CET", "Belfry resumes it then"}},
		"behind, and cannot be planned": {
			func(f *why.Facts) { f.NextDue, f.Problem = f.At, "too many runs" }, why.Unplanned, "",
			[]string{"nodes cannot plan its schedule: too many runs. When they can, ", "Fix the problem"},
		},
		"behind, with a node": {func(f *why.Facts) { f.NextDue = f.At }, why.Unplanned, "", []string{"A node owns"}},
		"behind, without": {
			func(f *why.Facts) { f.NextDue, f.Owned = f.At, false }, why.Unplanned, "", []string{"no live node owns"},
		},
		"forgotten": {
			func(f *why.Facts) { f.HistoryFrom = f.At.Add(time.Hour) }, why.Forgotten, "",
			[]string{"history is kept from"},
		},
		"archived": {
			func(f *why.Facts) { f.HistoryFrom, f.Archived = f.At.Add(time.Hour), true }, why.Archived, "",
			[]string{"Its history is archived", "belfry archive runs --job job_", "--from 2026-11-10 --to 2026-11-11"},
		},
		"archived, and the database has the day too": {
			func(f *why.Facts) { f.Archived = true }, why.Unknown, "", []string{"It is missing"},
		},
		"unknown": {func(*why.Facts) {}, why.Unknown, "", []string{"It is missing", "backfill it"}},
		"its schedule is gone": {
			func(f *why.Facts) { f.Versions[0].CursorGone = true }, why.Forgotten, "",
			[]string{"not known whether it was skipped", "Ask the operator to run belfry audit ledger for this time"},
		},
		"its schedule is gone, and the audit found it missing": {
			func(f *why.Facts) { f.Versions[0].CursorGone, f.Found, f.FoundAt = true, auditor.Missing, at }, why.Unknown, "",
			[]string{"It is missing"},
		},
		"missing, found by the audit": {
			func(f *why.Facts) { f.Found, f.FoundAt = auditor.Missing, at.Add(time.Hour) }, why.Unknown, "",
			[]string{"It is missing", "The audit found it at 2026-11-10 11:00:00 CET"},
		},
		"phantom": {
			func(f *why.Facts) {
				entry(func(*job.Entry) {})(f)
				f.Found, f.FoundAt = auditor.Phantom, at.Add(time.Hour)
			}, why.Succeeded, "", []string{"succeeded", "that no schedule of the job demands this run"},
		},
		"created later": {
			func(f *why.Facts) { f.Created = f.At.Add(time.Hour) }, why.CreatedLater, "",
			[]string{"created at 2026-11-10 11:00:00"},
		},
		"deleted before": {
			func(f *why.Facts) { deleted(f); f.DeletedAt, f.DeletedBy = at.Add(-time.Hour), "key:ci" }, why.Deleted, "",
			[]string{"It did not run: the job was deleted at 2026-11-10 09:00:00 CET", "by key:ci", "job versions job_"},
		},
		"deleted, to come": {
			func(f *why.Facts) { deleted(f); f.DeletedAt, f.Now = at.Add(-2*time.Hour), at.Add(-time.Hour) }, why.Deleted, "",
			[]string{"It will not run: the job was deleted"},
		},
		"deleted later, succeeded": {
			func(f *why.Facts) { deleted(f); f.DeletedAt = at.Add(time.Hour); entry(func(*job.Entry) {})(f) },
			why.Succeeded, "",
			[]string{"succeeded"},
		},
		"deleted later, forgotten": {
			func(f *why.Facts) { deleted(f); f.DeletedAt, f.HistoryFrom = at.Add(time.Hour), at.Add(time.Hour) },
			why.Forgotten, "", nil,
		},

		"no occurrence": {
			func(f *why.Facts) { f.At = f.At.Add(time.Minute) }, why.None, "",
			[]string{"no occurrence", "before is 2026-11-10 10:00:00", "after is 2026-11-11 10:00:00"},
		},
		"before start": {
			func(f *why.Facts) { f.Definition.Schedule.StartAt = f.At.Add(time.Hour) }, why.BeforeStart, "",
			[]string{"start_at"},
		},
		"after end": {func(f *why.Facts) { f.Definition.Schedule.EndAt = f.At }, why.AfterEnd, "", []string{"end_at"}},
		"calendar": {func(f *why.Facts) {
			f.Definition.Schedule.Calendars = []schedule.Calendar{{Dates: []string{"2026-11-10"}}}
		}, why.Skipped, job.ReasonCalendar, []string{"calendar"}},
		"between the ends of a range": {func(f *why.Facts) {
			f.At = f.At.Add(time.Minute)
			entry(func(e *job.Entry) { e.Status, e.DueAt, e.DueTo = job.StatusSkipped, at, at.Add(24*time.Hour) })(f)
		}, why.None, "", nil},
		"unreadable": {
			func(f *why.Facts) { f.Definition.Schedule.Cron = "?!" }, why.Unknown, "", []string{"cannot read"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := why.Facts{
				At: at, Created: at.Add(-240 * time.Hour), Owned: true,
				Life: ledger.Life{
					ID: uuid.MustParse("0190a5b0-0000-7000-8000-000000000001"), Now: at.Add(time.Hour),
					NextDue: at.Add(24 * time.Hour), HistoryFrom: at.Add(-24 * time.Hour),
					Versions: []ledger.Version{{Number: 1, From: at.Add(-240 * time.Hour)}},
				},
				Definition: job.Definition{
					Name: "report", Schedule: daily, Policy: job.Policy{Deadline: job.Duration(5 * time.Minute)},
				}.WithDefaults(),
			}
			f.Job = &job.Job{State: job.Active, Definition: f.Definition}
			test.change(&f)
			if f.Job != nil {
				f.State, f.PausedUntil = f.Job.State, f.Job.PausedUntil
			}
			got := why.Explain(f)
			require.Equal(t, test.code, got.Code, got.Text)
			require.Equal(t, test.reason, got.Reason, got.Text)
			for _, text := range test.text {
				require.Contains(t, got.Text+" "+got.Next+" "+fmt.Sprint(got.Commands), text)
			}
			require.NotContains(t, got.Text+got.Next, "%!")
			require.NotContains(t, got.Text+got.Next, "0001-01-01")
			if slices.Contains([]why.Code{why.Skipped, why.Retrying, why.Paused, why.Due, why.Unplanned},
				test.code) && test.reason != job.ReasonDeleted {
				require.NotEmpty(t, got.Next, "what to do")
			}
		})
	}
}

// TestExplainGap: a local time that does not exist is found by what the user would write, and by the end of the gap.
func TestExplainGap(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"2026-03-29T02:30:00+01:00", "2026-03-29T02:30", "2026-03-29T01:00:00Z"} {
		for _, gap := range []schedule.Gap{schedule.GapSkip, schedule.GapShift} {
			spec := schedule.Spec{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: schedule.DST{Gap: gap}}
			compiled, err := schedule.New(spec, "")
			require.NoError(t, err)
			at, err := why.ParseWhen(text, compiled.Zone())
			require.NoError(t, err)
			created := instantOf(t, "2026-01-01T00:00:00Z")
			got := why.Explain(why.Facts{
				At: at, Created: created, Definition: job.Definition{Schedule: spec}, Job: &job.Job{State: job.Active},
				Life: ledger.Life{
					Now: at.Add(time.Hour), State: job.Active, HistoryFrom: created, Versions: []ledger.Version{{Number: 1, From: created}},
				},
			})
			require.Equal(t, instantOf(t, "2026-03-29T01:00:00Z"), got.At, "%s: the end of the gap", text)
			if gap == schedule.GapSkip {
				require.Equal(t, job.ReasonGap, got.Reason)
				require.Contains(t, got.Text, "put forward past 2026-03-29 02:30:00")
			} else {
				require.Equal(t, why.Unknown, got.Code, "it should have run")
				require.Contains(t, got.Text, "02:30:00, does not exist that day")
			}
		}
	}
	_, err := why.ParseWhen("yesterday", time.UTC)
	require.Len(t, problem.All(err), 1)
}
