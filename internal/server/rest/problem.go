package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/share"
)

// Problem is the body of every error response (RFC 9457). Code is stable: clients branch on it and on
// nothing else.
type Problem struct { //nolint:errname // users read "problem", as RFC 9457 calls it
	Type     string         `json:"type" doc:"A URI of this kind of problem." example:"urn:belfry:problem:invalid"`
	Title    string         `json:"title" doc:"The kind of problem in words." example:"The request is not valid"`
	Status   int            `json:"status" doc:"The HTTP status." example:"422"`
	Code     string         `json:"code" doc:"The kind of problem, for programs. It never changes." example:"invalid"`
	Detail   string         `json:"detail,omitempty" doc:"What is wrong this time, and what to do."`
	Problems []FieldProblem `json:"problems,omitempty" doc:"Everything that is wrong with the request, by field."`

	RequestID string `json:"request_id,omitempty" doc:"Id of the request, as in the header X-Request-Id and the log."`

	more int // problems that are not listed
}

// FieldProblem is what is wrong with one field.
type FieldProblem struct {
	Field   string `json:"field" doc:"Where it is, as a path into the request." example:"schedule.cron"`
	Problem string `json:"problem" doc:"What is wrong with it." example:"day 31 does not exist in February"`
	Fix     string `json:"fix,omitempty" doc:"What to do about it."`
}

func (p *Problem) Error() string { return p.Detail }

// GetStatus is called by huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is called by huma.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders is called by huma. It says when to retry, and how to authenticate.
func (p *Problem) GetHeaders() http.Header {
	switch p.Code {
	case "unauthenticated":
		return http.Header{"Www-Authenticate": {`Bearer realm="belfry"`}}
	case "rate_limited", "unavailable":
		return http.Header{"Retry-After": {retryAfter}}
	}
	return nil
}

// kinds is the one table from codes to HTTP statuses.
var kinds = map[string]struct {
	status int
	title  string
}{
	"bad_request":         {http.StatusBadRequest, "The request cannot be read"},
	"unauthenticated":     {http.StatusUnauthorized, "The request has no valid key"},
	"forbidden":           {http.StatusForbidden, "The key may not do this"},
	"quota_exceeded":      {http.StatusForbidden, "A quota or limit of the namespace is used up"},
	"not_found":           {http.StatusNotFound, "Not found"},
	"method_not_allowed":  {http.StatusMethodNotAllowed, "There is no such operation"},
	"session_expired":     {http.StatusGone, "The session has expired"},
	"conflict":            {http.StatusConflict, "Conflict with the current state"},
	"precondition_failed": {http.StatusPreconditionFailed, "It has changed meanwhile"},
	"too_large":           {http.StatusRequestEntityTooLarge, "The request is too large"},
	"unsupported_media":   {http.StatusUnsupportedMediaType, "The request's body is of another kind"},
	"invalid":             {http.StatusUnprocessableEntity, "The request is not valid"},
	"rate_limited":        {http.StatusTooManyRequests, "Too many requests"},
	"internal":            {http.StatusInternalServerError, "Something went wrong inside Belfry"},
	"unavailable":         {http.StatusServiceUnavailable, "Belfry cannot do this now"},
}

// problemKinds lists the kinds of problems for the API reference, by status.
func problemKinds() (out []map[string]any) {
	byStatus := func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[a].status, kinds[b].status), cmp.Compare(a, b))
	}
	for _, code := range slices.SortedFunc(maps.Keys(kinds), byStatus) {
		out = append(out, map[string]any{"code": code, "status": kinds[code].status, "title": kinds[code].title})
	}
	return out
}

// codeOf returns the code of a status that huma chose.
func codeOf(status int) string {
	for code, k := range kinds {
		if k.status == status && code != "precondition_failed" && code != "quota_exceeded" {
			return code
		}
	}
	if status/100 == 4 {
		return "bad_request"
	}
	return "internal"
}

// NewProblem returns a problem of one of the kinds. detail says what is wrong and what to do.
func NewProblem(code, detail string) *Problem {
	k := kinds[code]
	return &Problem{Type: "urn:belfry:problem:" + code, Title: k.title, Status: k.status, Code: code, Detail: detail}
}

// maxProblems is how many problems an answer lists.
const maxProblems = 100

// listProblems returns a problem that lists everything that is wrong with a request.
func listProblems(found []FieldProblem) *Problem {
	p := NewProblem("invalid", seeProblems)
	p.list(found, 0)
	return p
}

// list adds problems, of which there are more than those found. It lists the first ones and counts the rest.
func (p *Problem) list(found []FieldProblem, more int) {
	room := max(0, maxProblems-len(p.Problems))
	p.Problems = append(p.Problems, found[:min(room, len(found))]...)
	if p.more += more + max(0, len(found)-room); p.more > 0 {
		p.Detail = p.counted()
	}
}

// Within lists the first problem and as many others as a budget still has, and counts the rest.
func (p *Problem) Within(budget *int) *Problem {
	found := p.Problems
	kept := min(len(found), 1+*budget)
	*budget -= max(0, kept-1)
	if kept < len(found) {
		p.Problems = slices.Clone(found[:kept]) // the others are not kept in memory
		p.more += len(found) - kept
		p.Detail = p.counted()
	}
	return p
}

// More returns how many problems are not listed.
func (p *Problem) More() int { return p.more }

func (p *Problem) counted() string {
	return fmt.Sprintf("%s; %d more are not listed", seeProblems, p.more)
}

// The details of problems that have no text of their own.
const (
	seeProblems = "fix what is listed in problems"
	seeLog      = "see the node's log"

	sharesBodies = "the bodies of requests that are under way need more memory than this node has for them"
)

// ErrorClass is what the store knows about an error that has no error value of its own.
type ErrorClass int

// The classes of errors.
const (
	Unknown      ErrorClass = iota
	Unreachable             // the database is down or unreachable, and may come back
	Slow                    // a statement took too long, because the database is busy or the request asks for much
	BadText                 // the database cannot store a string
	ClockInDoubt            // the database clock is in doubt, and its operator has to act
)

// Problem maps an error to a problem. An error that it does not know is internal: the log has its
// text, and the client does not see it.
func (a *API) Problem(ctx context.Context, err error) *Problem {
	var p *Problem
	found := problem.All(err)
	switch {
	case errors.As(err, &p):
		return p
	case len(found) > 0:
		return listProblems(Map(found, func(f *problem.Problem) FieldProblem {
			return FieldProblem{f.Field, f.Problem, f.Fix}
		}))
	}
	if p := expected(ctx, err); p != nil {
		return p
	}
	recordOf(ctx).err = err
	return a.logged(err)
}

// expected maps errors that clients cause and that are no news for an operator. It returns nil for all
// others.
func expected(ctx context.Context, err error) *Problem {
	var quota *access.QuotaError
	switch {
	case errors.As(err, &quota):
		return NewProblem("quota_exceeded", quota.Error())
	case errors.Is(err, job.ErrNotFound):
		object := cmp.Or(recordOf(ctx).object, "thing")
		return NewProblem("not_found", "there is no such "+object+" in this namespace")
	case errors.Is(err, job.ErrKeyUsed):
		p := NewProblem("invalid", "the Idempotency-Key was used for another request in the last 24 hours")
		p.Problems = []FieldProblem{{
			Field: idempotencyHeader, Problem: "it was used for another request",
			Fix: "use a new key for each new request",
		}}
		return p
	case errors.Is(err, job.ErrSessionExpired):
		return NewProblem("session_expired", "no heartbeat came in time, and the runs that the session had "+
			"were given to others; open a new one")
	case errors.Is(err, job.ErrTooManyWorkers):
		return NewProblem("rate_limited", "more workers wait on this node than it takes, of this namespace or of all; "+
			"try again, or another node")
	case errors.Is(err, job.ErrTooManySessions):
		return NewProblem("rate_limited", job.ErrTooManySessions.Error()+"; try again in a moment, and open them less often")
	case errors.Is(err, job.ErrAdopting):
		return NewProblem("rate_limited", job.ErrAdopting.Error()+"; try again in a moment")
	case errors.Is(err, job.ErrTooManyHandlers):
		return NewProblem("rate_limited", "workers wait on this node for more handlers of the queue, or of its namespace, than it "+
			"takes; name fewer, or try another node")
	case errors.Is(err, job.ErrTooManyReports):
		return NewProblem("rate_limited", "more reports wait on this node to be written than it takes, "+
			"of this namespace or of all; send them again in a moment")
	case errors.Is(err, body.ErrDepth), errors.Is(err, body.ErrNoObject), errors.Is(err, body.ErrTrailing):
		return NewProblem("bad_request", err.Error())
	case errors.Is(err, share.ErrMost):
		return NewProblem("rate_limited", sharesBodies+
			", and this namespace has its share; wait for answers, or send less at once")
	case errors.Is(err, share.ErrFull):
		return NewProblem("unavailable", sharesBodies+"; try again")
	case errors.Is(err, body.ErrValues):
		return NewProblem("too_large", err.Error())
	case errors.Is(err, job.ErrConflict):
		_, detail, _ := strings.Cut(err.Error(), job.ErrConflict.Error())
		return NewProblem("conflict", strings.TrimPrefix(detail, ": "))
	}
	return nil
}

// logged maps errors whose text goes to the log.
func (a *API) logged(err error) *Problem {
	switch {
	case errors.Is(err, job.ErrSlowList):
		return NewProblem("unavailable", "the list took too long and was given up; "+
			"add a filter, ask for a smaller page, or try again")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return NewProblem("unavailable", "it took too long; try again")
	}
	switch a.opts.Classify(err) {
	case Unreachable:
		return NewProblem("unavailable", "the database does not answer; try again")
	case Slow:
		return NewProblem("unavailable", "the database took too long and gave up; try again, and if this lasts, "+
			"ask for less: add a filter, shorten the range of time, or send fewer items")
	case ClockInDoubt:
		return NewProblem("unavailable", "the clock of the database is in doubt, so nothing can be planned; try again, "+
			"and inform the operator if this lasts: a node's /readyz says what to do")
	case BadText:
		return NewProblem("invalid", "a text has a character that cannot be stored: NUL, "+
			"or one that is not UTF-8; remove it")
	default:
		return NewProblem("internal", seeLog)
	}
}
