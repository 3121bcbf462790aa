package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	readyFor  = time.Second     // how long a result is reused
	readyTime = 2 * time.Second // timeout of the database query

	refusedFor = 10 * time.Second // how long a write that failed counts; loops retry theirs at least every 2 s

	noSession = "the node has no valid session, so it owns nothing"
)

// health reports whether the process is alive and whether it is ready to work. One request at a time runs
// the check and its result is reused, so many probes cost the database one query per second.
type health struct {
	mu       sync.Mutex
	node     *node  // nil: starting
	waiting  string // for what, while it starts
	stopping func() bool
	schema   int64 // the version that the node needs
	last     readiness
	checked  time.Duration // clock.Elapsed
}

// readiness is the body of a response. It contains no secrets, because it needs no key.
type readiness struct {
	Status   string            `json:"status"` // ready, or not ready
	Problems map[string]string `json:"problems,omitempty"`
}

// wait notes what the node waits for before it starts.
func (h *health) wait(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting, h.checked = what, 0
}

// watch makes h check a node from now on.
func (h *health) watch(ctx context.Context, n *node, schema int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.node, h.schema, h.checked = n, schema, 0
	h.stopping = func() bool { return ctx.Err() != nil }
}

func (h *health) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		got, code := h.ready(r.Context()), http.StatusOK
		if len(got.Problems) > 0 {
			code = http.StatusServiceUnavailable
		}
		answer(w, code, got)
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // it fails only if the client has disconnected
}

func (h *health) ready(ctx context.Context) readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checked == 0 || clock.Elapsed()-h.checked > readyFor {
		// Other requests wait for the result too, so the end of this one must not cancel the check.
		h.last = h.check(context.WithoutCancel(ctx))
		h.checked = clock.Elapsed()
	}
	return h.last
}

func (h *health) check(ctx context.Context) readiness {
	if h.node == nil {
		return notReady("start", h.waiting)
	}
	if h.stopping() {
		return notReady("stop", "the node is stopping")
	}
	out := readiness{Status: "ready"}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	schema, err := h.node.db.Admin().SchemaVersion(ctx)
	switch {
	case err != nil:
		out = notReady("database", "it does not answer; the node's log says why")
	case schema < h.schema:
		out = notReady("schema",
			fmt.Sprintf("it is at version %d and this node needs %d; run: belfry migrate", schema, h.schema))
	}
	if r := h.node.metrics.refused.Load(); r != nil && clock.Elapsed()-r.at < refusedFor {
		out.add("database", "it cannot write: "+r.cause+"; run: belfry doctor")
	}
	if doubt := h.node.bound.Doubt(); doubt != "" {
		out.add("clock", doubt)
	}
	if !h.node.member.Valid() {
		out.add("session", noSession)
	}
	return out
}

func notReady(what, why string) (r readiness) {
	r.add(what, why)
	return r
}

func (r *readiness) add(what, why string) {
	r.Status = "not ready"
	if r.Problems == nil {
		r.Problems = map[string]string{}
	}
	r.Problems[what] = why
}
