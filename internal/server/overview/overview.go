package overview

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Count is a count that may have stopped at its limit.
type Count struct {
	Count int64 `json:"count"`
	More  bool  `json:"more" doc:"Whether there are more than count."`
}

func wireCount(c job.Capped) Count { return Count{c.Count, c.More} }

// LateRuns is the runs that should have started.
type LateRuns struct {
	Runs        int64      `json:"runs"`
	More        bool       `json:"more"`
	OldestDueAt *time.Time `json:"oldest_due_at,omitempty"`
}

// Descriptions implements rest.Described.
func (LateRuns) Descriptions() map[string]string {
	return map[string]string{
		"runs": "Runs that are due and have not started, whatever the reason: at least all that have been due for 3 " +
			"seconds, and none that has been due for less than 1.5. A run that was deferred, because of backpressure, " +
			"has not started. One whose attempt failed is retrying.",
		"more": "Whether there are more: of each queue the oldest 100,000 are counted, and of occurrences without a run " +
			"one for each job. With it, running, accepted and retrying may be too low. If the database takes too long, " +
			"1,000 are counted, and 0 means unknown.",
		"oldest_due_at": "Since when the run that waits longest might have started. " +
			"Absent: no run is due. It may have been due for less than 3 seconds.",
	}
}

// Lateness is how late runs started.
type Lateness struct {
	P50 *float64 `json:"p50_ms,omitempty" doc:"Absent: none started."`
	P99 *float64 `json:"p99_ms,omitempty"`
}

// EndedCounts is how many runs ended, by how.
type EndedCounts struct {
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	Skipped   int64 `json:"skipped" doc:"Of the ledger, by the sum of the reasons in skipped_1h, without those that were missed."`
	Missed    int64 `json:"missed" doc:"Of the ledger: skipped because no node served them, and not caught up."`
}

// SkippedCount is how many occurrences were skipped for a reason.
type SkippedCount struct {
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// PausedCounts is how many jobs and queues are paused.
type PausedCounts struct {
	Jobs   int64 `json:"jobs"`
	Queues int64 `json:"queues"`
	More   bool  `json:"more" doc:"Whether there are more jobs."`
}

// AuditState is what the audit of the ledger found.
type AuditState struct {
	Until   *time.Time `json:"until,omitempty" doc:"The last minute in which it judged a sample. Absent: not in the last hour."`
	Missing int64      `json:"missing" doc:"Occurrences of the namespace that are not in the ledger as they must be."`
	More    bool       `json:"more" doc:"Whether there are more than missing."`
	Checked int64      `json:"checked" doc:"Occurrences that it judged in the last hour, in all namespaces."`
}

// AttentionCode says what it is.
type AttentionCode = rest.Enum[attentionCodes]

type attentionCodes struct{}

func (attentionCodes) Name() string { return "AttentionCode" }

func (attentionCodes) Values() []any {
	return []any{
		"clock_in_doubt", "partitions_unowned", "restore_held", "audit_findings", "no_worker", "queue_paused",
		"host_resting", "jobs_paused", "dead_letters", "schedules_broken",
	}
}

// Attention is something that someone has to look at.
type Attention struct {
	Code  AttentionCode `json:"code"`
	Text  string        `json:"text" doc:"For people."`
	Count int64         `json:"count"`
	Queue string        `json:"queue,omitempty"`
	Cause string        `json:"cause,omitempty" doc:"Of dead letters: a filter that selects them."`
	Since *time.Time    `json:"since,omitempty" doc:"Since when the queue is paused, its runs are deferred, or the restore holds runs."`
}

// RecentState is how a run ended, or what it does.
type RecentState struct {
	State  string `json:"state" example:"succeeded"`
	Reason string `json:"reason,omitempty" example:"attempts"`
}

// FailingJob is a job whose runs failed in the last hour.
type FailingJob struct {
	Job     string `json:"job"`
	JobName string `json:"job_name,omitempty" doc:"Absent: the job is deleted."`
	Failed  int64  `json:"failed_1h"`
	Message string `json:"message,omitempty" doc:"Of the last failure."`

	Recent []RecentState `json:"recent" doc:"Its newest runs and skips, at most 12, the oldest first."`
}

// Overview is how a namespace is doing.
type Overview struct {
	Now             time.Time      `json:"now" doc:"When it was read, by the clock of the database."`
	Late            LateRuns       `json:"late"`
	Lateness        Lateness       `json:"lateness_5m" doc:"How late runs started in the last five minutes. Statistics."`
	DueNext         int64          `json:"due_next_5m"`
	DueExact        bool           `json:"due_next_5m_exact" doc:"false: a sample was counted, because there are too many schedules."`
	Running         int64          `json:"running"`
	Accepted        int64          `json:"accepted" doc:"Runs whose target accepted them and will report."`
	Retrying        int64          `json:"retrying"`
	Ended           EndedCounts    `json:"ended_1h" doc:"Runs that ended in the last hour. Statistics, except skipped and missed."`
	EndedIncomplete bool           `json:"ended_1h_incomplete" doc:"A node was killed in the last hour: there are at least as many."`
	Skipped         []SkippedCount `json:"skipped_1h" doc:"Why runs were skipped in the last hour, of the newest 50,000 entries."`
	SkippedMore     bool           `json:"skipped_1h_more" doc:"Whether more were skipped than were read."`
	DeadLetters     Count          `json:"dead_letters"`
	Paused          PausedCounts   `json:"paused"`
	HasJobs         bool           `json:"has_jobs" doc:"Whether the namespace has any job."`
	Broken          int64          `json:"broken" doc:"Schedules that cannot be planned."`
	BrokenMore      bool           `json:"broken_more" doc:"Whether there may be more. With it, 0 means unknown."`
	Unowned         int64          `json:"unowned" doc:"Partitions without a live owner: their runs wait."`
	Audit           AuditState     `json:"audit"`
	Minutes         []StatPoint    `json:"minutes" doc:"The last 60 minutes; the last one is the current minute. Statistics."`
	Attention       []Attention    `json:"attention"`
	Failing         []FailingJob   `json:"failing" doc:"The jobs that failed most in the last hour, of the newest 50,000 failures."`
	FailingMore     bool           `json:"failing_more" doc:"Whether more runs failed than were read."`
}

// Descriptions implements rest.Described.
func (Overview) Descriptions() map[string]string {
	return map[string]string{
		"due_next_5m": "Occurrences in the five minutes after they were counted, which was at most 30 seconds ago.",
		"attention": "What someone has to look at, the most urgent first, at most 20. Dead letters are counted at most " +
			"every 10 seconds.",
		"broken": "Schedules that cannot be planned. Their jobs do not run. Counted up to 1,000.",
	}
}

type getOverviewInput struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"200" doc:"The ETag of the last response: 304 if nothing has changed."`
}

type getOverviewOutput struct {
	Status      int
	ContentType string `header:"Content-Type"`
	ETag        string `header:"ETag" doc:"Changes when more than the time has changed."`
	Body        []byte
}

func (h *Handlers) getOverview(ctx context.Context, in *getOverviewInput) (*getOverviewOutput, error) {
	s, err := h.snapshot(ctx, rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	if strings.Contains(in.IfNoneMatch, s.etag) {
		return &getOverviewOutput{Status: http.StatusNotModified, ETag: s.etag}, nil
	}
	return &getOverviewOutput{http.StatusOK, "application/json", s.etag, s.body}, nil
}

// wireOverview returns an overview as clients see it.
func wireOverview(o *job.Overview, live *job.Live, slow *slowPart) *Overview {
	runs := o.LiveOf(live)
	out := &Overview{
		Now: o.Now,
		Late: LateRuns{
			Runs: runs.Late, More: runs.More,
			OldestDueAt: rest.OptionalTime(runs.OldestDue),
		},
		DueNext: slow.due, DueExact: slow.exact,
		Running: runs.Running, Accepted: runs.Accepted, Retrying: runs.Retrying,
		DeadLetters: wireCount(o.DeadLetters),
		Paused:      PausedCounts{Jobs: o.PausedJobs.Count, More: o.PausedJobs.More},
		Broken:      o.BrokenOf(live).Count, BrokenMore: o.BrokenOf(live).More, Unowned: o.Unowned,
		HasJobs: o.HasJobs, SkippedMore: o.SkippedMore, FailingMore: o.FailingMore,
		Audit:   AuditState{Until: rest.OptionalTime(o.AuditedAt), Missing: o.Findings.Count, More: o.Findings.More, Checked: o.Audited},
		Minutes: rest.Map(o.Minutes, wirePoint),
		Skipped: rest.Map(o.Skipped, func(s job.ReasonCount) SkippedCount {
			return SkippedCount{Reason: string(s.Reason), Count: s.Count}
		}),
		Attention: rest.Map(o.Attention(live), func(a job.Attention) Attention {
			return Attention{
				Code: AttentionCode(a.Code), Text: a.Text, Count: a.Count, Queue: a.Queue, Cause: a.Cause,
				Since: rest.OptionalTime(a.Since),
			}
		}),
		Failing: rest.Map(o.Failing, func(f job.FailingJob) FailingJob {
			return FailingJob{
				Job: job.FormatJobID(f.ID), JobName: f.Name, Failed: f.Failed, Message: f.Message,
				Recent: rest.Map(f.Recent.Entries, func(e job.Entry) RecentState {
					return RecentState{string(e.Status), string(e.Reason)}
				}),
			}
		}),
	}
	for i := range o.Queues {
		if o.Queues[i].Paused {
			out.Paused.Queues++
		}
	}
	var hour, recent job.Stat
	for i := range o.Minutes {
		hour.Add(&o.Minutes[i].Stat)
		out.EndedIncomplete = out.EndedIncomplete || o.Minutes[i].Incomplete
		if i >= len(o.Minutes)-5 {
			recent.Add(&o.Minutes[i].Stat)
		}
	}
	out.Ended = EndedCounts{Succeeded: hour.Succeeded, Failed: hour.Failed, Cancelled: hour.Cancelled}
	for _, s := range o.Skipped {
		if s.Reason.Missed() {
			out.Ended.Missed += s.Count
		} else {
			out.Ended.Skipped += s.Count
		}
	}
	out.Lateness = Lateness{quantile(recent.Lateness, 0.5), quantile(recent.Lateness, 0.99)}
	return out
}

// encode returns the body of an overview and its ETag, which is the same as long as nothing but the time has changed.
func encode(o *Overview) (body []byte, etag string, err error) {
	now := o.Now
	o.Now = time.Time{}
	same, err := json.Marshal(o)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(same)
	o.Now = now
	body, err = json.Marshal(o)
	return bytes.TrimSpace(body), `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, err
}
