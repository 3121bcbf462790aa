package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// link is the worker's session and everything that is sent through it.
//
// If the reply to a claim is lost, the server may have leased runs to the session that this worker does not
// know of. The worker then opens a new session, which adopts the runs it knows; the server gives the others
// to other workers. Nothing else may be sent meanwhile.
//
// If the reply to that request is lost too, the new session may or may not exist: the session is unresolved,
// and the worker keeps asking until it knows. The same applies if a session ends before its time, because a
// late request of this worker may have replaced it.
type link struct {
	worker *Worker

	mu         sync.RWMutex // senders lock it for reading, whoever changes the session for writing
	id         string       // of the session; empty: there is none
	unresolved bool         // another session may have replaced this one
	ttl        time.Duration
	beatEvery  time.Duration

	seenMu    sync.Mutex
	seen      time.Time          // when the last heartbeat with a reply was sent; monotonic
	stopClaim context.CancelFunc // cancels the current claim, which may hold mu for long; nil: there is none
}

type leaseWire struct {
	Run      string  `json:"run"`
	Attempt  int     `json:"attempt"`
	Percent  *int    `json:"percent,omitempty"`
	Progress *string `json:"progress,omitempty"`
}

type gone struct {
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
}

type claimedWire struct {
	Run       string          `json:"run"`
	Attempt   int             `json:"attempt"`
	Key       string          `json:"idempotency_key"`
	Job       string          `json:"job"`
	JobName   string          `json:"job_name"`
	Handler   string          `json:"handler"`
	Origin    string          `json:"origin"`
	DueAt     time.Time       `json:"due_at"`
	RunAt     time.Time       `json:"run_at"`
	ClaimedAt time.Time       `json:"claimed_at"`
	Timeout   int64           `json:"timeout_ms"`
	Payload   json.RawMessage `json:"payload"`
	Trace     string          `json:"traceparent"`
}

const (
	callTimeout  = 20 * time.Second
	claimTimeout = pollWait + 10*time.Second
)

func stack() string { return string(debug.Stack()) }

func (l *link) sessions() string {
	return "/queues/" + belfry.PathEscape(l.worker.queue) + "/sessions"
}

// call sends a request below the session's path.
func (l *link) call(ctx context.Context, verb string, body, out any) error {
	path := l.sessions() + "/" + l.id + ":" + verb
	return l.worker.client.Call(ctx, belfry.Request{Method: http.MethodPost, Path: path, Body: body}, out)
}

// alive records when a successful heartbeat was sent. The session lives at least its ttl longer.
func (l *link) alive(sent time.Time) {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	if sent.After(l.seen) {
		l.seen = sent
	}
}

// now is only used for elapsed time.
func now() time.Time { return time.Now() } //nolint:forbidigo // a worker has no database clock

func (l *link) session() (id string, ttl time.Duration) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.id, l.ttl
}

// silence returns the time since the last successful heartbeat.
func (l *link) silence() time.Duration {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	return now().Sub(l.seen)
}

// open opens the first session. It retries until it succeeds or the server rejects the worker.
func (l *link) open(ctx context.Context) error {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		err := l.renew(ctx, "")
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		l.worker.log.WarnContext(ctx, "opening a session failed", "queue", l.worker.queue, "again_in", wait, "error",
			err)
		pause(ctx, wait)
	}
}

// renew replaces a session, unless another goroutine already did.
func (l *link) renew(ctx context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != id {
		return nil
	}
	return l.replace(ctx)
}

// lockResolved resolves the session if necessary, and locks mu for reading. The server rejects everything that
// is sent through a session that was replaced.
func (l *link) lockResolved(ctx context.Context) error {
	for {
		l.mu.RLock()
		if !l.unresolved {
			return nil
		}
		l.mu.RUnlock()
		if err := l.resolve(ctx); err != nil {
			return &unresolvedError{err}
		}
	}
}

// resolve finds out which session has the runs, by opening another that adopts them.
func (l *link) resolve(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.unresolved {
		return nil // another goroutine did it
	}
	return l.replace(ctx)
}

// endedEarly marks a session that ended before its time as unresolved, and cancels its claim, which cannot
// return runs any more.
func (l *link) endedEarly(id string) {
	l.cancelClaim()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.unresolved = true
	}
}

func (l *link) cancelClaim() {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	if l.stopClaim != nil {
		l.stopClaim()
	}
}

// send sends a request through the session that has the runs, and returns that session. If the session ended
// before its time, send replaces it and tries once more.
func (l *link) send(ctx context.Context, verb string, body func() any, out any) (id string, err error) {
	for again := false; ; again = true {
		if err := l.lockResolved(ctx); err != nil {
			return "", err
		}
		id, ttl, err := l.id, l.ttl, error(errExpired)
		if id != "" {
			err = l.call(ctx, verb, body(), out)
		}
		l.mu.RUnlock()
		if id == "" || again || !sessionEnded(err) || l.silence() > ttl {
			return id, err
		}
		l.endedEarly(id)
	}
}

// replace is renew for callers that have locked mu.
func (l *link) replace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body struct {
		Name  string      `json:"name"`
		Adopt string      `json:"adopt,omitempty"`
		Runs  []leaseWire `json:"runs,omitempty"`
		Slots int         `json:"slots,omitempty"`
	}
	body.Name, body.Adopt, body.Slots = l.worker.name, l.id, l.worker.slots
	sent := now()
	if l.id != "" {
		body.Runs = l.worker.leases(false)
	}
	var out struct {
		ID        string `json:"id"`
		TTL       int64  `json:"ttl_ms"`
		Heartbeat int64  `json:"heartbeat_ms"`
		Gone      []gone `json:"gone"`
	}
	q := belfry.Request{Method: http.MethodPost, Path: l.sessions(), Body: body}
	if err := l.worker.client.Call(ctx, q, &out); err != nil {
		if l.id != "" && mayHaveEffect(err) && !sessionEnded(err) {
			// A later try that the server rejects says nothing about this one, so it stays unresolved.
			l.unresolved = true
		}
		return err
	}
	l.unresolved = false
	l.id = out.ID
	l.ttl = time.Duration(out.TTL) * time.Millisecond
	l.beatEvery = time.Duration(out.Heartbeat) * time.Millisecond
	l.alive(sent)
	for _, g := range out.Gone {
		l.worker.lost(g)
	}
	return nil
}

// claim requests up to n runs, passes them to take, and returns how many there were. If it is unknown whether
// the server leased runs, claim replaces the session.
func (l *link) claim(ctx context.Context, names []string, n int, take func(*Run)) (int, error) {
	if err := l.lockResolved(ctx); err != nil {
		return 0, err
	}
	id := l.id
	if id == "" {
		l.mu.RUnlock()
		return 0, l.renew(ctx, id)
	}
	var out struct {
		Runs []claimedWire `json:"runs"`
	}
	limited, cancel := context.WithTimeout(ctx, claimTimeout)
	l.setStopClaim(cancel)
	body := map[string]any{"handlers": names, "max": n, "wait_ms": pollWait.Milliseconds()}
	began := now()
	err := l.call(limited, "claim", body, &out)
	l.setStopClaim(nil)
	cancel()
	if err != nil {
		l.mu.RUnlock()
		if ctx.Err() == nil && mayHaveEffect(err) {
			if e := l.renew(ctx, id); e != nil {
				return 0, errors.Join(err, e)
			}
		}
		return 0, err
	}
	for _, c := range out.Runs {
		take(&Run{
			ID: c.Run, Key: c.Key, Attempt: c.Attempt,
			Job: c.Job, JobName: c.JobName, Handler: c.Handler, Origin: c.Origin,
			DueAt: c.DueAt, RunAt: c.RunAt, ClaimedAt: c.ClaimedAt,
			Timeout: time.Duration(c.Timeout) * time.Millisecond, Payload: c.Payload, Traceparent: c.Trace,
		})
	}
	l.mu.RUnlock() // only now may a new session adopt runs: it knows these too
	l.worker.batchSpan(ctx, "receive", began, tracesOf(out.Runs, func(c *claimedWire) string { return c.Trace }))
	return len(out.Runs), nil
}

func (l *link) setStopClaim(stop context.CancelFunc) {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	l.stopClaim = stop
}

// mayHaveEffect reports whether a failed request may have had an effect, or its session has ended.
func mayHaveEffect(err error) bool {
	var p *belfry.Problem
	if !errors.As(err, &p) {
		return true // there was no reply
	}
	return p.Status >= http.StatusInternalServerError || sessionEnded(err)
}

// sessionEnded reports whether the server said that the session has ended.
func sessionEnded(err error) bool {
	code := belfry.CodeOf(err)
	return code == "not_found" || code == "session_expired"
}

// unavailable reports whether the server answered that it cannot do its work now. While its database is down,
// no session ends: the worker keeps its runs and keeps retrying.
func unavailable(err error) bool { return belfry.CodeOf(err) == "unavailable" }

// beat sends heartbeats until ctx ends.
func (l *link) beat(ctx context.Context) {
	for {
		l.mu.RLock()
		every := l.beatEvery
		l.mu.RUnlock()
		if l.silence() > every {
			every /= 4 // one has failed: leave time for more tries
		}
		pause(ctx, every)
		if ctx.Err() != nil {
			return
		}
		l.beatOnce(ctx)
	}
}

func (l *link) beatOnce(ctx context.Context) {
	id, ttl := l.session()
	if id == "" {
		return // the next claim opens a session
	}
	limited, cancel := context.WithTimeout(ctx, ttl/2)
	used, err := l.sendBeat(limited)
	cancel()
	switch {
	case ctx.Err() != nil || err == nil:
	case sessionEnded(err) || l.silence() > ttl && !unavailable(err):
		// Other workers may have its runs now.
		l.worker.log.WarnContext(ctx, "session lost, and its runs with it", "queue", l.worker.queue, "error", err)
		l.worker.lostAll()
		l.forget(cmp.Or(used, id))
	default:
		l.worker.log.WarnContext(ctx, "heartbeat failed", "queue", l.worker.queue, "error", err)
	}
}

// sendBeat sends a heartbeat and returns the session that it used.
func (l *link) sendBeat(ctx context.Context) (id string, err error) {
	var out struct {
		Gone []gone `json:"gone"`
	}
	sent := now()
	// Progress can be taken only once, so a repeated request sends the same body.
	runs := sync.OnceValue(func() any { return map[string]any{"runs": l.worker.leases(true)} })
	if id, err = l.send(ctx, "heartbeat", runs, &out); err != nil {
		return id, err
	}
	l.alive(sent)
	for _, g := range out.Gone {
		l.worker.lost(g)
	}
	return id, nil
}

// forget drops a session and cancels its claim. The next claim opens another.
func (l *link) forget(id string) {
	l.cancelClaim()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.id, l.unresolved = "", false
	}
}

// end ends the session. The server gives runs that are still leased to it to other workers.
func (l *link) end(ctx context.Context) error {
	if err := l.lockResolved(ctx); err != nil {
		return err
	}
	defer l.mu.RUnlock()
	if l.id == "" {
		return nil
	}
	err := l.worker.client.Call(ctx, belfry.Request{Method: http.MethodDelete, Path: l.sessions() + "/" + l.id}, nil)
	if sessionEnded(err) {
		return nil
	}
	return err
}
