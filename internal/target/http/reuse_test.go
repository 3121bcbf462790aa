package http_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/http"
)

// counted starts a server that counts its connections.
func counted(t *testing.T, handler nethttp.HandlerFunc) (url string, conns *atomic.Int32) {
	t.Helper()
	conns = new(atomic.Int32)
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ConnState = func(_ net.Conn, state nethttp.ConnState) {
		if state == nethttp.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL, conns
}

func TestOneConnectionForManyDeliveries(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no answer": "", "small": "ok", "at the bound": strings.Repeat("x", 256<<10-1),
	} {
		for _, status := range []int{200, 404, 500} {
			url, conns := counted(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
			target := newTarget(t, http.Options{})
			times := 20
			if body == "ok" && status == 200 {
				times = 1000
			}
			for range times {
				require.Equal(t, status, target.Deliver(t.Context(), to(url)).Status)
			}
			// net/http returns a connection just after the end of the response, so a next request may be faster.
			require.LessOrEqual(t, int(conns.Load()), 1+times/2, "%s, %d", name, status)
		}
	}
}

func TestNoMoreConnectionsThanDeliveriesAtOnce(t *testing.T) {
	t.Parallel()
	const many = 50
	var arrived sync.WaitGroup
	arrived.Add(many)
	var served atomic.Int32
	url, conns := counted(t, func(nethttp.ResponseWriter, *nethttp.Request) {
		if served.Add(1) <= many { // the first ones wait for each other, so each has its own connection
			arrived.Done()
			arrived.Wait()
		}
	})
	target := newTarget(t, http.Options{})
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			for range 20 {
				if out := target.Deliver(t.Context(), to(url)); out.Kind != job.Succeeded {
					t.Errorf("%+v", out)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, many*20, served.Load())
	// net/http returns a connection just after the end of the response, so a next request may be faster.
	require.LessOrEqual(t, conns.Load(), int32(10*many))
}

// A receiver that dies while it processes a request on a reused connection sees the request once. By
// default net/http would repeat it (see the package page).
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	for _, config := range []string{
		`{"url": %q}`, `{"url": %q, "method": "DELETE"}`, `{"url": %q, "body": ""}`,
		`{"url": %q, "headers": {"X-Idempotency-Key": "mine"}}`,
	} {
		var seen atomic.Int32
		url, _ := counted(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
			seen.Add(1)
			if r.Header.Get("Belfry-Attempt") == "2" {
				panic(nethttp.ErrAbortHandler) //nolint:forbidigo // how a handler of net/http hangs up
			}
		})
		target := newTarget(t, http.Options{})
		a := attempt(fmt.Sprintf(config, url))
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), a).Kind)
		a.Number = 2
		got := target.Deliver(t.Context(), a)
		require.Equal(t, job.Failed, got.Kind)
		require.True(t, got.Retryable)
		require.Contains(t, got.Message, "closed the connection before", config)
		require.EqualValues(t, 2, seen.Load(), config)
	}
}

// Responses that come at the same time on one connection do not delay each other, although they are more than a
// server may send for nothing.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const many, size = 128, 200 << 10
	var arrived sync.WaitGroup
	arrived.Add(many)
	body := make([]byte, size)
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/" {
			arrived.Done()
			arrived.Wait()
			_, _ = w.Write(body)
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, state nethttp.ConnState) {
		if state == nethttp.StateNew {
			conns.Add(1)
		}
	}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	target := newTarget(t, http.Options{TLS: &tls.Config{RootCAs: roots}})
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), to(srv.URL+"/first")).Kind)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if out := target.Deliver(t.Context(), to(srv.URL+"/")); out.Kind != job.Succeeded {
				t.Errorf("%+v", out)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, conns.Load())
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || r.Header.Get("Idempotency-Key") == "" || string(body) != `{"a": 1}` {
			w.WriteHeader(nethttp.StatusBadRequest)
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	target := newTarget(t, http.Options{TLS: &tls.Config{RootCAs: roots}})
	for range 10 {
		require.Equal(t, job.Outcome{Kind: job.Succeeded, Status: 200}, target.Deliver(t.Context(), to(srv.URL)))
	}
}
