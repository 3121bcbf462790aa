package rest

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/server/body"
)

const (
	requestIDHeader = "X-Request-Id"
	logRate         = 50 // log lines per second about rejected requests
	logBurst        = 200
)

// requestID is the form of an id that a client may choose.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Observer counts requests. The operation is the id of one of the API's operations, or empty.
type Observer interface {
	Answered(operation string, status int, took time.Duration)
}

// record is what is known about a request while it is in progress. The goroutine of the request owns it.
type record struct {
	id        string
	operation string
	object    string // what its path names: a job, a run, …
	peer      Peer
	caller    access.Principal // zero until it is known
	err       error            // for the log; the client does not see it

	body io.ReadCloser // what the client sends. Operations get it from admitBody
	bad  *Problem      // what admitBody found wrong with the body; nil: nothing

	client  context.Context //nolint:containedctx // it ends when the client disconnects; see LongPoll
	slot    slot
	memory  body.Memory
	release func()       // ends what counts against the key
	check   func() error // see CheckKey
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// LongPoll is for a request that waits for something to happen: it frees the request's slots, so
// that waiting requests do not shut out others. The context ends when the client disconnects.
func LongPoll(ctx context.Context) context.Context {
	r := recordOf(ctx)
	r.slot.give()
	r.memory.Shrink(0)
	if r.release != nil {
		r.release()
	}
	if r.client == nil {
		return ctx
	}
	return r.client
}

// CheckKey returns a problem if the key of the request, or its login session, is no longer valid. A request that waited
// calls it before it hands out what it waited for. As for every request, the node may know a key for up to keyTTL.
func CheckKey(ctx context.Context) error {
	if r := recordOf(ctx); r.check != nil {
		return r.check()
	}
	return nil
}

// observe gives each request an id, counts it, and logs it if it failed. The log has neither path nor
// headers nor body, because users put secrets into each of them.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{id: r.Header.Get(requestIDHeader), peer: peerOf(r)}
		if !requestID.MatchString(rec.id) {
			rec.id = strings.ToLower(rand.Text())
		}
		h := w.Header()
		h.Set(requestIDHeader, rec.id)
		h.Set("Cache-Control", "no-store")
		out := &statusWriter{ResponseWriter: w}
		begun := clock.Elapsed()
		defer func() {
			took := clock.Elapsed() - begun
			if a.opts.Observe != nil {
				a.opts.Observe.Answered(rec.operation, out.status, took)
			}
			a.log(r, rec, out.status, took)
		}()
		defer a.recoverPanic(rec, out)
		from := access.Origin{Address: rec.peer.Address, Request: rec.id}
		ctx := access.WithOrigin(context.WithValue(r.Context(), recordKey{}, rec), from)
		next.ServeHTTP(out, r.WithContext(ctx))
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if out.status == http.StatusForbidden && !reads && rec.caller.Key != uuid.Nil {
			a.opts.Refused(rec.caller, rec.operation, from)
		}
	})
}

// recoverPanic answers a request whose operation panicked. The panic is a bug; other requests go on. Huma also panics if
// it cannot write a response: the client is gone, which is no fault.
func (a *API) recoverPanic(rec *record, w *statusWriter) {
	cause := recover()
	if cause == nil || w.gone {
		return
	}
	a.opts.Log.Error("request panicked",
		"request", rec.id, "operation", rec.operation, "panic", cause, "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, NewProblem("internal", seeLog))
	}
}

// log writes one line about a request that failed. Clients can cause many such lines, so lines without
// an error of the server are limited to logRate.
func (a *API) log(r *http.Request, rec *record, status int, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case status < http.StatusBadRequest:
		return
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case rec.err != nil:
		level = slog.LevelWarn
	case !a.logLines.Allow():
		return
	}
	args := []any{
		"request", rec.id, "status", status, "operation", rec.operation, "address", r.RemoteAddr, "took", took,
	}
	switch p := rec.caller; {
	case p.IsPerson():
		args = append(args, "user", p.ID(), "namespace", p.NamespaceName)
	case p.Key != uuid.Nil:
		args = append(args, "key", p.ID(), "namespace", p.NamespaceName)
	}
	if rec.err != nil {
		args = append(args, "error", rec.err)
	}
	a.opts.Log.Log(r.Context(), level, "request failed", args...)
}

// addRequestID is a transformer of huma.
func addRequestID(ctx huma.Context, _ string, v any) (any, error) {
	if p, ok := v.(*Problem); ok {
		p.RequestID = recordOf(ctx.Context()).id
	}
	return v, nil
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
	gone   bool // the client, when some of the response was written
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.gone = w.gone || err != nil
	return n, err
}

// Unwrap is called by http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
