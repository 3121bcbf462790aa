package belfry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	firstWait  = 250 * time.Millisecond
	maxWait    = 30 * time.Second // if the server asks for a longer wait, the client gives up
	maxProblem = 1 << 20
)

// doer sends requests: it adds the key, retries where that is safe, and returns problems as errors.
type doer struct {
	http       *http.Client
	key, agent string
	tries      int
	insecure   bool
}

func (d *doer) do(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("User-Agent", d.agent)
	for try := 1; ; try++ {
		response, err := d.http.Do(r)
		if err != nil {
			return nil, fmt.Errorf("belfry: %w", err)
		}
		if response.StatusCode < 300 {
			return response, nil
		}
		p := readProblem(response)
		wait, retry := retryWait(response, try)
		if !retry || try >= d.tries || !safe(r, response.StatusCode) || !pause(ctx, wait) {
			return nil, p // more useful than the error of ctx
		}
		if r.Body, err = r.GetBody(); err != nil {
			return nil, p
		}
	}
}

// safe reports whether a request may be repeated: it changes nothing, the server rejected it before it
// processed it, or it has an idempotency key.
func safe(r *http.Request, status int) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead ||
		status == http.StatusTooManyRequests || r.Header.Get(idempotencyKey) != ""
}

// retryWait reports whether a retry may succeed, and how long to wait before it.
func retryWait(response *http.Response, try int) (wait time.Duration, retry bool) {
	if s := response.StatusCode; s != http.StatusTooManyRequests && s != http.StatusServiceUnavailable {
		return 0, false
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		wait = time.Duration(seconds) * time.Second
		return wait, wait <= maxWait
	}
	wait = firstWait << (try - 1)
	return wait/2 + rand.N(wait/2), true //nolint:gosec // it spreads clients
}

func pause(ctx context.Context, d time.Duration) bool {
	//nolint:forbidigo // a client has no database clock
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
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

// readProblem reads the problem in a response. If there is none, as in responses of proxies, it creates one.
func readProblem(response *http.Response) *Problem {
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // incomplete JSON is rejected below
	p := &Problem{}
	if json.Unmarshal(text, p) == nil && p.Code != "" {
		return p
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(response.StatusCode), Status: int64(response.StatusCode),
		Code: "unknown",
		Detail: fmt.Sprintf("the server answered %s, and not as Belfry does; "+
			"is its URL right, and is there a proxy between?", response.Status),
	}
}
