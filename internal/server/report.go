package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Reports is the part of the store that takes reports of targets on runs they accepted.
type Reports interface {
	ReportRun(ctx context.Context, r access.Report, o job.Outcome) error
	HeartbeatRun(ctx context.Context, r access.Report) (by time.Time, err error)
}

const (
	maxReport  = 64 << 10 // bytes
	maxMessage = 1000     // characters of a report
)

const aboutReports = "For a target that has accepted a run, with 202 or over a broker. " +
	"The bearer is the run's own token, which came with the run, and not a key. " +
	"A report on an attempt that has ended or was replaced is rejected with 409: stop working on the run."

func (s *Server) registerReports() {
	report := func(verb string, status int, summary string) rest.Operation {
		return rest.Operation{
			ID: verb + "-run", Route: "POST /runs/{run}:" + verb, Summary: summary, Description: aboutReports,
			Role: rest.ByToken, Status: status, MaxBody: maxReport, TooLarge: "shorten the message",
		}
	}
	const none = http.StatusNoContent
	rest.Register(s.api, report("complete", none, "Report that an accepted run succeeded"), s.completeRun)
	rest.Register(s.api, report("fail", none, "Report that an accepted run failed"), s.failRun)
	rest.Register(s.api, report("heartbeat", http.StatusOK, "Give a sign of life of an accepted run"), s.heartbeatRun)
}

// SuccessReport is the report of a target that succeeded.
type SuccessReport struct {
	Message string `json:"message,omitempty" maxLength:"1000" doc:"The result, for people."`
}

type completeRunInput struct {
	RunPath
	Body *SuccessReport
}

func (s *Server) completeRun(ctx context.Context, in *completeRunInput) (*struct{}, error) {
	o := job.Outcome{Kind: job.Succeeded}
	if in.Body != nil {
		var err error
		if o.Message, err = s.reportText(ctx, in.Body.Message); err != nil {
			return nil, err
		}
	}
	return nil, s.report(ctx, o)
}

// FailureReport is the report of a target that failed.
type FailureReport struct {
	Message    string        `json:"message,omitempty" maxLength:"1000" doc:"What went wrong, for people."`
	Final      bool          `json:"final,omitempty" doc:"Do not retry. Default: retry by the job's retry policy."`
	RetryAfter rest.Duration `json:"retry_after,omitempty" doc:"Minimum delay before the retry." example:"5m"`
}

type failRunInput struct {
	RunPath
	Body *FailureReport
}

func (s *Server) failRun(ctx context.Context, in *failRunInput) (*struct{}, error) {
	o := job.Outcome{Kind: job.Failed, Retryable: true, Message: "the target reported a failure"}
	if b := in.Body; b != nil {
		o.Retryable = !b.Final
		text, err := s.reportText(ctx, b.Message)
		if err != nil {
			return nil, err
		}
		if text != "" {
			o.Message = text
		}
		o.RetryAfter, err = b.RetryAfter.Parse("retry_after", 0, "5m")
		if err != nil || o.RetryAfter < 0 || o.RetryAfter > job.MaxRetryAfter {
			return nil, &problem.Problem{
				Field: "retry_after", Problem: "it is not a duration of at most 24h", Fix: "write for example 5m",
			}
		}
	}
	return nil, s.report(ctx, o)
}

// reportText returns the message of a report as it is stored: on one line, and without the secrets of the run.
func (s *Server) reportText(ctx context.Context, text string) (_ string, err error) {
	if text != "" && s.opts.Redact != nil {
		if text, err = s.opts.Redact(ctx, rest.Report(ctx), text); err != nil {
			return "", err
		}
	}
	return oneLine(text), nil
}

// report writes the outcome of an attempt. A target that did not get the response to its report sends
// it again, so a repeated report succeeds too.
func (s *Server) report(ctx context.Context, o job.Outcome) error {
	r := rest.Report(ctx)
	err := s.opts.Reports.ReportRun(ctx, r, o)
	if errors.Is(err, job.ErrStale) && s.reportedBefore(ctx, r, o) {
		return nil
	}
	return reportProblem(err)
}

// reportedBefore reports whether the ledger has this outcome of the attempt already.
func (s *Server) reportedBefore(ctx context.Context, r access.Report, o job.Outcome) bool {
	entries, err := s.opts.Ledger.Run(ctx, r.Namespace, r.Key)
	if err != nil {
		return false
	}
	want := job.StatusSucceeded
	if o.Kind == job.Failed {
		want = job.StatusFailed
	}
	same := func(a job.AttemptEnd) bool { return a.Number == r.Attempt && a.Outcome == o.Kind }
	return slices.ContainsFunc(entries, func(e job.Entry) bool {
		return e.Attempt == r.Attempt && e.Status == want || slices.ContainsFunc(e.Attempts, same)
	})
}

// reportProblem maps the errors that only reports have.
func reportProblem(err error) error {
	switch {
	case errors.Is(err, job.ErrStale):
		return rest.NewProblem("conflict",
			"this attempt of the run is over, or another one has taken its place; stop working on it")
	case errors.Is(err, access.ErrReportExpired):
		return rest.NewProblem("unauthenticated", "the token has expired")
	}
	return err
}

// ReportDeadline says when the next report is due.
type ReportDeadline struct {
	ReportBy time.Time `json:"report_by" doc:"Report or send a heartbeat before this time, or the attempt is lost."`
}

type heartbeatRunOutput struct {
	Body ReportDeadline
}

func (s *Server) heartbeatRun(ctx context.Context, _ *RunPath) (*heartbeatRunOutput, error) {
	by, err := s.opts.Reports.HeartbeatRun(ctx, rest.Report(ctx))
	if err != nil {
		return nil, reportProblem(err)
	}
	out := &heartbeatRunOutput{}
	out.Body.ReportBy = by
	return out, nil
}

// oneLine makes the text of a target fit for a message: printable, on one line, bounded.
func oneLine(text string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) } // also what turns the direction of the text around
	text = strings.Join(strings.FieldsFunc(text, hidden), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage])
	}
	return strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
}
