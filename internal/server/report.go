package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Reports is the store, as reports on runs see it.
type Reports interface {
	ReportRun(ctx context.Context, r job.Report, o job.Outcome) error
	HeartbeatRun(ctx context.Context, r job.Report) (by time.Time, err error)
}

// byToken is the role of operations that are done with the token of one run, which
// is no key: it may do these for that run, and nothing else.
const byToken access.Role = "run"

type reportKey struct{}

func (s *Server) registerReports() {
	report := func(id, verb, summary string) huma.Operation {
		o := operation(id, http.MethodPost, "/runs/{run}:"+verb, summary, byToken)
		o.Description = "For a target that has accepted a run, with 202 or over a broker. The bearer is the run's own token, which came with the run, and not a key. " +
			"An attempt that is over, or in whose place another one has come, is refused with 409: stop working on it."
		o.Security = []map[string][]string{{"run": {}}}
		o.MaxBodyBytes = maxReport
		return o
	}
	complete := report("complete-run", "complete", "Report that an accepted run succeeded")
	complete.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, complete, s.completeRun)
	fail := report("fail-run", "fail", "Report that an accepted run failed")
	fail.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, fail, s.failRun)
	huma.Register(s.api, report("heartbeat-run", "heartbeat", "Give a sign of life of an accepted run"), s.heartbeatRun)
}

const (
	maxReport  = 64 << 10 // bytes
	maxMessage = 1000     // characters of a report
)

// authenticateReport lets a report pass if its token is of the run that its path
// names.
func (s *Server) authenticateReport(ctx huma.Context, next func(huma.Context)) {
	scheme, token, _ := strings.Cut(ctx.Header("Authorization"), " ")
	r, err := job.ParseReport(s.opts.ReportKey, strings.TrimSpace(token))
	switch {
	case !strings.EqualFold(scheme, "Bearer") || err != nil:
		s.refuse(ctx, newProblem("unauthenticated", "send the token that came with the run, as Authorization: Bearer bfr_…; a key will not do"))
		return
	case job.FormatRunID(r.Key) != ctx.Param("run"):
		s.refuse(ctx, newProblem("forbidden", "the token is of another run"))
		return
	}
	// A namespace whose targets report too often slows down itself alone.
	done, err := s.limiter.enter(access.Principal{Key: r.Namespace})
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	defer done()
	next(huma.WithValue(ctx, reportKey{}, r))
}

func reportOf(ctx context.Context) job.Report {
	r, _ := ctx.Value(reportKey{}).(job.Report)
	return r
}

type completeRunInput struct {
	RunPath
	Body *struct {
		Message string `json:"message,omitempty" maxLength:"1000" doc:"What came of it, for people."`
	}
}

func (s *Server) completeRun(ctx context.Context, in *completeRunInput) (*struct{}, error) {
	o := job.Outcome{Kind: job.Succeeded}
	if in.Body != nil {
		o.Message = oneLine(in.Body.Message)
	}
	return nil, s.reported(ctx, o)
}

type failRunInput struct {
	RunPath
	Body *struct {
		Message    string   `json:"message,omitempty" maxLength:"1000" doc:"What went wrong, for people."`
		Final      bool     `json:"final,omitempty" doc:"It is of no use to try again. Default: it is tried again as the job's retry policy says."`
		RetryAfter Duration `json:"retry_after,omitempty" doc:"Not before so long." example:"5m"`
	}
}

func (s *Server) failRun(ctx context.Context, in *failRunInput) (*struct{}, error) {
	o := job.Outcome{Kind: job.Failed, Retryable: true, Message: "the target reported a failure"}
	if b := in.Body; b != nil {
		o.Retryable = !b.Final
		if b.Message != "" {
			o.Message = oneLine(b.Message)
		}
		if b.RetryAfter != "" {
			var after job.Duration
			if after.UnmarshalText([]byte(b.RetryAfter)) != nil || after < 0 || time.Duration(after) > job.MaxRetryAfter {
				return nil, s.problem(ctx, &job.Problem{Field: "retry_after", Problem: "it is not a duration of at most 24h", Fix: "write for example 5m"})
			}
			o.RetryAfter = time.Duration(after)
		}
	}
	return nil, s.reported(ctx, o)
}

// reported writes a report. One that was written before, and whose answer was
// lost on its way, is as good as new.
func (s *Server) reported(ctx context.Context, o job.Outcome) error {
	r := reportOf(ctx)
	err := s.opts.Reports.ReportRun(ctx, r, o)
	if errors.Is(err, job.ErrStale) && s.saidBefore(ctx, r, o) {
		return nil
	}
	return s.reportProblem(ctx, err)
}

func (s *Server) saidBefore(ctx context.Context, r job.Report, o job.Outcome) bool {
	entries, err := s.opts.Ledger.Run(ctx, r.Namespace, r.Key)
	if err != nil || len(entries) == 0 {
		return false
	}
	for _, e := range entries {
		want := job.StatusSucceeded
		if o.Kind == job.Failed {
			want = job.StatusFailed
		}
		if e.Attempt == r.Attempt && e.Status == want {
			return true
		}
		for _, a := range e.Attempts {
			if a.Number == r.Attempt && a.Outcome == o.Kind {
				return true
			}
		}
	}
	return false
}

func (s *Server) reportProblem(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, job.ErrStale):
		return newProblem("conflict", "this attempt of the run is over, or another one has taken its place; stop working on it")
	case errors.Is(err, job.ErrReportExpired):
		return newProblem("unauthenticated", "the token has expired")
	}
	return s.problem(ctx, err)
}

type heartbeatRunOutput struct {
	Body struct {
		ReportBy time.Time `json:"report_by" doc:"Report, or send the next heartbeat, before this time; else the attempt counts as lost."`
	}
}

func (s *Server) heartbeatRun(ctx context.Context, _ *RunPath) (*heartbeatRunOutput, error) {
	by, err := s.opts.Reports.HeartbeatRun(ctx, reportOf(ctx))
	if err != nil {
		return nil, s.reportProblem(ctx, err)
	}
	out := &heartbeatRunOutput{}
	out.Body.ReportBy = by
	return out, nil
}

// oneLine makes a target's text fit for a message: printable, on one line, bounded.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' }), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage])
	}
	return strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
}
