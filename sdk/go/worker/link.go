package worker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// link is the worker's session and all that is sent through it.
//
// A claim without an answer may have leased runs to the session that this worker
// does not know. Then a new session takes its place, which adopts what is known;
// while that happens nothing else may be sent. So it does if the session is over
// before its time: a request of this worker that came late has adopted it.
type link struct {
	worker *Worker

	mu        sync.RWMutex // held to read by who sends, to write by who changes the session
	id        string       // of the session; empty: there is none
	unsettled bool         // another may have taken its place: there was no answer
	ttl       time.Duration
	beatEvery time.Duration

	seenMu    sync.Mutex
	seen      time.Time          // when the server was last heard of; monotonic
	stopClaim context.CancelFunc // of the claim under way, which may wait for long with mu; nil: there is none
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
	Why     string `json:"why"`
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
	return l.worker.client.Call(ctx, belfry.Request{Method: http.MethodPost, Path: l.sessions() + "/" + l.id + ":" + verb, Body: body}, out)
}

// alive notes a heartbeat that the server has answered, when it was sent: the
// session lives for its ttl from then on at least.
func (l *link) alive(sent time.Time) {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	if sent.After(l.seen) {
		l.seen = sent
	}
}

func now() time.Time { return time.Now() } //nolint:forbidigo // a worker has no database clock; only elapsed time is taken

func (l *link) silence() time.Duration {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	return now().Sub(l.seen)
}

// open opens the first session, and tries until it can.
func (l *link) open(ctx context.Context) error {
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		err := l.renew(ctx, "")
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		l.worker.log.WarnContext(ctx, "no session yet", "queue", l.worker.queue, "again_in", wait, "error", err)
		pause(ctx, wait)
	}
}

// renew opens a session in place of one, unless somebody else did.
func (l *link) renew(ctx context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != id {
		return nil
	}
	return l.replace(ctx)
}

// settled waits until it is known which session has the runs, and holds mu to
// read: if that is not known, it is asked for first, as through a session that is
// over everything would be refused.
func (l *link) settled(ctx context.Context) error {
	for {
		l.mu.RLock()
		if !l.unsettled {
			return nil
		}
		l.mu.RUnlock()
		if err := l.settle(ctx); err != nil {
			return &unsettledError{err}
		}
	}
}

func (l *link) settle(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.unsettled {
		return nil // somebody else did
	}
	return l.replace(ctx)
}

// over notes that a session has ended before its time. A claim through it brings
// nothing any more.
func (l *link) over(id string) {
	l.seenMu.Lock()
	if l.stopClaim != nil {
		l.stopClaim()
	}
	l.seenMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.unsettled = true
	}
}

// send sends a request through the session that has the runs. If that is over
// before its time, another takes its place, once. It says which one was used.
func (l *link) send(ctx context.Context, verb string, body func() any, out any) (id string, err error) {
	for again := false; ; again = true {
		if err := l.settled(ctx); err != nil {
			return "", err
		}
		id, ttl, err := l.id, l.ttl, error(errOver)
		if id != "" {
			err = l.call(ctx, verb, body(), out)
		}
		l.mu.RUnlock()
		if id == "" || again || !gonePast(err) || l.silence() > ttl {
			return id, err
		}
		l.over(id)
	}
}

// replace is renew with the lock held.
func (l *link) replace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body struct {
		Name  string      `json:"name"`
		Adopt string      `json:"adopt,omitempty"`
		Runs  []leaseWire `json:"runs,omitempty"`
	}
	body.Name, body.Adopt = l.worker.name, l.id
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
	if err := l.worker.client.Call(ctx, belfry.Request{Method: http.MethodPost, Path: l.sessions(), Body: body}, &out); err != nil {
		if l.id != "" && inDoubt(err) && !gonePast(err) {
			l.unsettled = true // and stays so: that another try is refused says nothing of the one before
		}
		return err
	}
	l.unsettled = false
	l.id, l.ttl, l.beatEvery = out.ID, time.Duration(out.TTL)*time.Millisecond, time.Duration(out.Heartbeat)*time.Millisecond
	l.alive(sent)
	for _, g := range out.Gone {
		l.worker.lost(g)
	}
	return nil
}

// claim asks for up to n runs, hands them to take, and says how many there were. An
// error after which it is not known whether some were claimed makes a new session.
func (l *link) claim(ctx context.Context, names []string, n int, take func(*Run)) (int, error) {
	if err := l.settled(ctx); err != nil {
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
	l.mayStop(cancel)
	err := l.call(limited, "claim", map[string]any{"handlers": names, "max": n, "wait_ms": pollWait.Milliseconds()}, &out)
	l.mayStop(nil)
	cancel()
	if err != nil {
		l.mu.RUnlock()
		if ctx.Err() == nil && inDoubt(err) {
			if e := l.renew(ctx, id); e != nil {
				return 0, errors.Join(err, e)
			}
		}
		return 0, err
	}
	for _, c := range out.Runs {
		take(&Run{
			ID: c.Run, Key: c.Key, Attempt: c.Attempt, Job: c.Job, JobName: c.JobName, Handler: c.Handler, Origin: c.Origin,
			DueAt: c.DueAt, RunAt: c.RunAt, ClaimedAt: c.ClaimedAt, Timeout: time.Duration(c.Timeout) * time.Millisecond, Payload: c.Payload,
		})
	}
	l.mu.RUnlock() // they are known now: a new session adopts what is known
	return len(out.Runs), nil
}

func (l *link) mayStop(claim context.CancelFunc) {
	l.seenMu.Lock()
	defer l.seenMu.Unlock()
	l.stopClaim = claim
}

// inDoubt says whether a request may have had an effect, or its session is over.
func inDoubt(err error) bool {
	var p *belfry.Problem
	if !errors.As(err, &p) {
		return true // there was no answer
	}
	return p.Status >= http.StatusInternalServerError || gonePast(err)
}

// gonePast says that the session is over.
func gonePast(err error) bool {
	code := belfry.CodeOf(err)
	return code == "not_found" || code == "session_expired"
}

// beat sends heartbeats until ctx ends.
func (l *link) beat(ctx context.Context) {
	for {
		l.mu.RLock()
		every := l.beatEvery
		l.mu.RUnlock()
		if l.silence() > every {
			every /= 4 // one has failed: the next must not
		}
		pause(ctx, every)
		if ctx.Err() != nil {
			return
		}
		l.beatOnce(ctx)
	}
}

func (l *link) beatOnce(ctx context.Context) {
	l.mu.RLock()
	none, ttl := l.id == "", l.ttl
	l.mu.RUnlock()
	if none {
		return // the next claim opens one
	}
	limited, cancel := context.WithTimeout(ctx, ttl/2)
	_, err := l.sendBeat(limited)
	cancel()
	switch {
	case ctx.Err() != nil || err == nil:
	case gonePast(err) || l.silence() > ttl:
		// Others may have what was ours.
		l.worker.log.WarnContext(ctx, "the session is over: its runs are lost", "queue", l.worker.queue, "error", err)
		l.worker.lostAll()
		l.forget()
	default:
		l.worker.log.WarnContext(ctx, "heartbeat failed", "queue", l.worker.queue, "error", err)
	}
}

// sendBeat sends a heartbeat, and says through which session.
func (l *link) sendBeat(ctx context.Context) (id string, err error) {
	var out struct {
		Gone []gone `json:"gone"`
	}
	sent := now()
	runs := sync.OnceValue(func() any { return map[string]any{"runs": l.worker.leases(true)} }) // progress is taken once
	if id, err = l.send(ctx, "heartbeat", runs, &out); err != nil {
		return id, err
	}
	l.alive(sent)
	for _, g := range out.Gone {
		l.worker.lost(g)
	}
	return id, nil
}

// forget gives up the session: the next claim opens another.
func (l *link) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.unsettled = "", false
}

// end ends the session: what it has that nobody knows of is given to others.
func (l *link) end(ctx context.Context) error {
	if err := l.settled(ctx); err != nil {
		return err
	}
	defer l.mu.RUnlock()
	if l.id == "" {
		return nil
	}
	err := l.worker.client.Call(ctx, belfry.Request{Method: http.MethodDelete, Path: l.sessions() + "/" + l.id}, nil)
	if gonePast(err) {
		return nil
	}
	return err
}
