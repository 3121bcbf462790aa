package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// between is a proxy in front of a node. change may rewrite requests. If cut returns true, the proxy drops
// the response, which the node does not notice.
func (n *node) between(change func([]byte) []byte, cut func(path string, request, answer []byte) bool) string {
	n.t.Helper()
	at, err := url.Parse(n.url)
	require.NoError(n.t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	type sent struct{}
	proxy.ModifyResponse = func(r *http.Response) error {
		answer, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(answer))
		request, _ := r.Request.Context().Value(sent{}).([]byte)
		if cut(r.Request.URL.Path, request, answer) {
			panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler breaks off
		}
		return nil
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		request = change(request)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(request)), int64(len(request))
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sent{}, request)))
	}))
	n.t.Cleanup(web.Close)
	return web.URL
}

// The reply to a claim is lost, and so are those to the following adoptions. The worker's runs continue, and
// a run that ends meanwhile is reported once it is known which session has it.
func TestALostAnswerToAnAdoption(t *testing.T) {
	t.Parallel()
	n := setupNode(t, time.Minute)
	n.rescue()
	release := make(chan struct{})
	var claims, adoptions atomic.Int32
	at := n.between(func(b []byte) []byte { return b }, func(path string, request, answer []byte) bool {
		switch {
		case strings.HasSuffix(path, ":claim"):
			return bytes.Contains(answer, []byte(`"handler":"lost"`)) && claims.Add(1) == 1
		case strings.HasSuffix(path, "/sessions") && bytes.Contains(request, []byte(`"adopt"`)):
			n := adoptions.Add(1)
			if n == 1 {
				close(release) // "ends" ends now
			}
			return n <= 3
		}
		return false
	})
	w := n.worker(at)
	hold := make(chan struct{})
	await := func(over chan struct{}) worker.Handler {
		return func(ctx context.Context, _ *worker.Run) error {
			select {
			case <-over:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	w.Handle("ends", await(release))
	w.Handle("stays", await(hold))
	w.Handle("lost", func(context.Context, *worker.Run) error { return nil })
	for _, name := range []string{"ends", "stays", "lost"} {
		n.job(name, "")
	}
	n.start(w)
	ends, stays := n.trigger("ends", "{}"), n.trigger("stays", "{}")
	n.await(ends, "running")
	n.await(stays, "running")
	lost := n.trigger("lost", "{}")
	n.await(lost, "succeeded")
	n.await(ends, "succeeded")
	close(hold)
	n.await(stays, "succeeded")
	require.Equal(t, 2, n.run(lost).Attempt, "the first one was lost")
	require.Equal(t, 1, n.run(ends).Attempt)
	require.Equal(t, 1, n.run(stays).Attempt)
	require.GreaterOrEqual(t, adoptions.Load(), int32(4))
}

// The reply to an adoption is lost, and the server rejects the next ones for longer than the client retries.
// It is still unknown which session has the runs, so nothing is sent through the old session, which has
// ended.
func TestARefusedAdoptionAfterALostOne(t *testing.T) {
	t.Parallel()
	n := setupNode(t, time.Minute)
	n.rescue()
	const refusals = 10 // one call of the client makes 4 tries
	var claims, adoptions, refused, through atomic.Int32
	isAdoption := func(path string, request []byte) bool {
		return strings.HasSuffix(path, "/sessions") && bytes.Contains(request, []byte(`"adopt"`))
	}
	at, err := url.Parse(n.between(func(b []byte) []byte { return b }, func(path string, request, answer []byte) bool {
		if isAdoption(path, request) {
			return adoptions.Add(1) == 1
		}
		return strings.HasSuffix(path, ":claim") && bytes.Contains(answer, []byte(`"handler":"lost"`)) &&
			claims.Add(1) == 1
	}))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if adoptions.Load() == 1 {
			if !strings.HasSuffix(r.URL.Path, "/sessions") {
				through.Add(1)
			} else if refused.Add(1) <= refusals {
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"code":"rate_limited","status":429,"title":"Too many requests"}`)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	w := n.worker(web.URL)
	hold := make(chan struct{})
	w.Handle("stays", func(ctx context.Context, _ *worker.Run) error {
		select {
		case <-hold:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	w.Handle("lost", func(context.Context, *worker.Run) error { return nil })
	n.job("stays", "")
	n.job("lost", "")
	n.start(w)
	stays := n.trigger("stays", "{}")
	n.await(stays, "running")
	lost := n.trigger("lost", "{}")
	n.await(lost, "succeeded")
	close(hold)
	n.await(stays, "succeeded")
	require.Greater(t, refused.Load(), int32(refusals))
	require.Zero(t, through.Load(), "requests through a session that is over")
	require.Equal(t, 1, n.run(stays).Attempt)
}

// The server rejects a whole batch because it does not understand one of many reports. The other reports are
// accepted all the same.
func TestABadReportAmongGoodOnes(t *testing.T) {
	t.Parallel()
	n := setupNode(t, time.Minute)
	const runs, wrong = 20, 3
	var together atomic.Int32
	at := n.between(func(b []byte) []byte {
		if bytes.Contains(b, []byte(`"outcome":"failed"`)) {
			together.Store(max(together.Load(), int32(bytes.Count(b, []byte(`"outcome"`)))))
		}
		return bytes.ReplaceAll(b, []byte(`"outcome":"failed"`), []byte(`"outcome":"unheard of"`))
	}, func(string, []byte, []byte) bool { return false })
	w := n.worker(at, worker.Slots(runs))
	var begun sync.WaitGroup
	begun.Add(runs)
	w.Handle("x", func(_ context.Context, run *worker.Run) error {
		begun.Done()
		begun.Wait() // so that they are reported together
		if string(run.Payload) == `"bad"` {
			return errors.New("no")
		}
		return nil
	})
	n.job("x", "")
	var ids []string
	for i := range runs {
		if i%6 == wrong {
			n.trigger("x", `"bad"`)
		} else {
			ids = append(ids, n.trigger("x", `"good"`))
		}
	}
	n.start(w)
	for _, id := range ids {
		n.await(id, "succeeded")
	}
	require.Len(t, ids, runs-wrong)
	require.Greater(t, together.Load(), int32(1))
}
