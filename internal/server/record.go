package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const requestIDHeader = "X-Request-Id"

// requestID is what is taken from a client.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Observer is told of each request that was answered. The operation is the id of
// one of the API's, or empty.
type Observer interface {
	Answered(operation string, status int, took time.Duration)
}

// record is what is known of a request while it is answered. One goroutine has it.
type record struct {
	id        string
	operation string
	object    string    // what its path names: a job, a run, …
	key       uuid.UUID // zero: not known
	namespace string
	err       error // what stays inside

	client context.Context //nolint:containedctx // it ends when the client goes away; see wait
	yield  []func()        // give back what the request holds
}

// wait is for a request that waits for something to happen: it gives back its
// place among the requests under way. The context ends when the client goes away.
func (r *record) wait(ctx context.Context) context.Context {
	for _, f := range r.yield {
		f()
	}
	if r.client == nil {
		return ctx
	}
	return r.client
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// recorded gives each request an id, counts it, and logs it if it failed. What is
// logged is neither path, nor header, nor body: users put secrets into each.
func (s *Server) recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{id: r.Header.Get(requestIDHeader)}
		if !requestID.MatchString(rec.id) {
			rec.id = strings.ToLower(rand.Text())
		}
		h := w.Header()
		h.Set(requestIDHeader, rec.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		out := &answer{ResponseWriter: w}
		begun := clock.Elapsed()
		defer func() {
			took := clock.Elapsed() - begun
			if s.opts.Observe != nil {
				s.opts.Observe.Answered(rec.operation, out.status, took)
			}
			s.log(r, rec, out.status, took)
		}()
		defer s.recovered(rec, out)
		next.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)))
	})
}

// recovered answers a request whose operation panicked: a bug, of this one alone.
func (s *Server) recovered(rec *record, w *answer) {
	cause := recover()
	if cause == nil {
		return
	}
	s.opts.Log.Error("request panicked", "request", rec.id, "operation", rec.operation, "panic", cause, "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, newProblem("internal", "see the node's log"))
	}
}

// log writes one line about a request that failed. Those that are the client's
// fault may be many: so many a second are enough to see that.
func (s *Server) log(r *http.Request, rec *record, status int, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case status < http.StatusBadRequest:
		return
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case rec.err != nil:
		level = slog.LevelWarn
	case !s.lines.Allow():
		return
	}
	args := []any{"request", rec.id, "status", status, "operation", rec.operation, "address", r.RemoteAddr, "took", took}
	if rec.key != uuid.Nil {
		args = append(args, "key", job.FormatKeyID(rec.key), "namespace", rec.namespace)
	}
	if rec.err != nil {
		args = append(args, "error", rec.err)
	}
	s.opts.Log.Log(r.Context(), level, "request failed", args...)
}

// addRequestID is a transformer of huma.
func addRequestID(ctx huma.Context, _ string, v any) (any, error) {
	if p, ok := v.(*Problem); ok {
		p.RequestID = recordOf(ctx.Context()).id
	}
	return v, nil
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
