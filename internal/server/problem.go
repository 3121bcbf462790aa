package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/job"
)

// Problem is the body of every error (RFC 9457). Code is stable: programs switch
// on it and on nothing else.
type Problem struct { //nolint:errname // users read "problem", as RFC 9457 calls it
	Type     string         `json:"type" doc:"A URI of this kind of problem." example:"urn:belfry:problem:invalid"`
	Title    string         `json:"title" doc:"The kind of problem in words." example:"The request is not valid"`
	Status   int            `json:"status" doc:"The HTTP status." example:"422"`
	Code     string         `json:"code" doc:"The kind of problem, for programs. It never changes." example:"invalid"`
	Detail   string         `json:"detail,omitempty" doc:"What is wrong this time, and what to do."`
	Problems []FieldProblem `json:"problems,omitempty" doc:"Everything that is wrong with the request, by field."`

	RequestID string `json:"request_id,omitempty" doc:"The request's id, also in the header X-Request-Id and in the node's log."`
}

// FieldProblem is what is wrong with one field.
type FieldProblem struct {
	Field   string `json:"field" doc:"Where it is, as a path into the request." example:"schedule.cron"`
	Problem string `json:"problem" doc:"What is wrong with it." example:"day 31 does not exist in February"`
	Fix     string `json:"fix,omitempty" doc:"What to do about it."`
}

func (p *Problem) Error() string { return p.Detail }

// GetStatus and ContentType are for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// kinds is the one table from codes to HTTP.
var kinds = map[string]struct {
	status int
	title  string
}{
	"bad_request":         {http.StatusBadRequest, "The request cannot be read"},
	"unauthenticated":     {http.StatusUnauthorized, "The request has no valid key"},
	"forbidden":           {http.StatusForbidden, "The key may not do this"},
	"not_found":           {http.StatusNotFound, "There is no such thing"},
	"method_not_allowed":  {http.StatusMethodNotAllowed, "There is no such operation"},
	"session_expired":     {http.StatusGone, "The session has expired"},
	"conflict":            {http.StatusConflict, "It does not fit with what is there"},
	"precondition_failed": {http.StatusPreconditionFailed, "It has changed meanwhile"},
	"too_large":           {http.StatusRequestEntityTooLarge, "The request is too large"},
	"unsupported_media":   {http.StatusUnsupportedMediaType, "The request's body is of another kind"},
	"invalid":             {http.StatusUnprocessableEntity, "The request is not valid"},
	"rate_limited":        {http.StatusTooManyRequests, "Too many requests"},
	"internal":            {http.StatusInternalServerError, "Something went wrong inside Belfry"},
	"unavailable":         {http.StatusServiceUnavailable, "Belfry cannot do this now"},
}

// listed is the detail of a problem that has several.
const listed = "mend what is listed in problems"

func newProblem(code, detail string) *Problem {
	k := kinds[code]
	return &Problem{Type: "urn:belfry:problem:" + code, Title: k.title, Status: k.status, Code: code, Detail: detail}
}

// codeOf is the code of a status that huma chose.
func codeOf(status int) string {
	for code, k := range kinds {
		if k.status == status && code != "precondition_failed" {
			return code
		}
	}
	if status/100 == 4 {
		return "bad_request"
	}
	return "internal"
}

// fromHuma makes problems of what huma found. Its errors carry the values that
// were sent, which may be secrets: those are left out.
func fromHuma(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	p := wholeBody(ctx, status, message)
	var root *huma.Schema
	var all huma.Registry
	if ctx != nil {
		all, _ = ctx.Context().Value(schemasKey{}).(huma.Registry)
		if b := ctx.Operation().RequestBody; b != nil && b.Content["application/json"] != nil {
			root = b.Content["application/json"].Schema
		}
	}
	for _, err := range errs {
		var found *Problem
		if errors.As(err, &found) {
			return found
		}
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			p.Problems = append(p.Problems, wrong(d.ErrorDetail(), root, all)...)
		}
	}
	if p.Code == "internal" {
		p.Detail, p.Problems = "see the node's log", nil // its text stays inside
	}
	return p
}

// problem gives an error of the store its code. What has none is internal: it is
// logged, and its text stays inside.
func (s *Server) problem(ctx context.Context, err error) error {
	var p *Problem
	found := job.Problems(err)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case len(found) > 0:
		p = newProblem("invalid", listed)
		for _, f := range found {
			p.Problems = append(p.Problems, FieldProblem{f.Field, f.Problem, f.Fix})
		}
		return p
	case errors.Is(err, job.ErrNotFound):
		return newProblem("not_found", "there is no such "+cmp.Or(recordOf(ctx).object, "thing")+" in this namespace")
	case errors.Is(err, job.ErrSessionExpired):
		return newProblem("session_expired", "no heartbeat came in time, and the runs that the session had were given to others; open a new one")
	case errors.Is(err, job.ErrTooManyWorkers):
		return newProblem("rate_limited", "more workers wait on this node than it takes; try again, or another node")
	case errors.Is(err, job.ErrTooManyHandlers):
		return newProblem("rate_limited", "workers wait on this node for more handlers of the queue than it takes; name fewer, or try another node")
	case errors.Is(err, job.ErrTooManyReports):
		return newProblem("rate_limited", "more reports wait on this node to be written than it takes, for the database is slow or away; send them again in a moment")
	case errors.Is(err, job.ErrConflict):
		return newProblem("conflict", strings.TrimPrefix(err.Error()[strings.Index(err.Error(), job.ErrConflict.Error())+len(job.ErrConflict.Error()):], ": "))
	case errors.Is(err, job.ErrSlowList):
		recordOf(ctx).err = err
		return newProblem("unavailable", "the list took too long and was given up; add a filter, ask for a smaller page, or try again")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		recordOf(ctx).err = err
		return newProblem("unavailable", "it took too long; try again")
	}
	recordOf(ctx).err = err
	switch s.opts.Classify(err) {
	case Unreachable:
		return newProblem("unavailable", "the database does not answer; try again")
	case BadText:
		return newProblem("invalid", "a text has a character that cannot be stored: NUL, or one that is not UTF-8; remove it")
	default:
		return newProblem("internal", "see the node's log")
	}
}

// ErrorClass is what the store knows of an error that has no name of its own.
type ErrorClass int

// The classes of errors.
const (
	Unknown     ErrorClass = iota
	Unreachable            // the database is away, and may come back
	BadText                // the database cannot store a text
)

// GetHeaders is for huma: a client that may try again is told when.
func (p *Problem) GetHeaders() http.Header {
	if p.Status != http.StatusServiceUnavailable {
		return nil
	}
	return http.Header{"Retry-After": {retryAfter}}
}
