package belfry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	firstWait  = 250 * time.Millisecond
	longestAsk = 30 * time.Second // a server that asks for a longer wait is not waited for
	maxProblem = 1 << 20
)

// doer sends requests: with the key, again where that is safe, and with problems
// as errors.
type doer struct {
	http       *http.Client
	key, agent string
	tries      int
}

// Do is what the generated client calls.
func (d *doer) Do(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	r = r.Clone(ctx)
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("User-Agent", d.agent)
	escapeColons(r)
	for try := 1; ; try++ {
		answer, err := d.http.Do(r)
		if err != nil {
			return nil, fmt.Errorf("belfry: %w", err)
		}
		if answer.StatusCode < 300 {
			return answer, nil
		}
		p := readProblem(answer)
		wait, again := waitFor(answer, try)
		if !again || try >= d.tries || !safe(r, answer.StatusCode) || !pause(ctx, wait) {
			return nil, p // it says more than that the context ended
		}
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, p
			}
		}
	}
}

// safe says whether a request may be sent again: it changes nothing, it was
// refused before it was looked at, or it has a key by which the server knows it.
func safe(r *http.Request, status int) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false // it is read, and gone
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead || status == http.StatusTooManyRequests || r.Header.Get("Idempotency-Key") != ""
}

// waitFor says whether an answer may be another one later, and how much later.
func waitFor(answer *http.Response, try int) (wait time.Duration, again bool) {
	if s := answer.StatusCode; s != http.StatusTooManyRequests && s != http.StatusServiceUnavailable {
		return 0, false
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		wait = time.Duration(seconds) * time.Second
		return wait, wait <= longestAsk
	}
	wait = firstWait << (try - 1)
	return wait/2 + rand.N(wait/2), true //nolint:gosec // no secret: it spreads clients
}

func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d { //nolint:forbidigo // a client has no database clock
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// escapeColons escapes those that belong to a name, which the generated client
// leaves alone. A verb follows the last colon of a POST; nothing else has one
// behind a name.
func escapeColons(r *http.Request) {
	if r.Method == http.MethodPost {
		return
	}
	path := r.URL.EscapedPath()
	_, name, ok := strings.Cut(path, "/api/v1/")
	if !ok {
		return
	}
	if slash := strings.IndexByte(name, '/'); slash >= 0 && strings.Contains(name[slash:], ":") {
		head := len(path) - len(name) + slash
		r.URL.RawPath = path[:head] + strings.ReplaceAll(path[head:], ":", "%3A")
	}
}

// readProblem reads the problem in an answer, and makes one of an answer that has
// none, as those of proxies.
func readProblem(answer *http.Response) *Problem {
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxProblem)) // what is missing makes it no JSON
	p := &Problem{}
	if json.Unmarshal(text, p) == nil && p.Code != "" {
		return p
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(answer.StatusCode), Status: int64(answer.StatusCode), Code: "unknown",
		Detail: fmt.Sprintf("the server answered %s, and not as Belfry does; is its URL right, and is there a proxy between?", answer.Status),
	}
}
