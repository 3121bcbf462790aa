package http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/http"
)

// raw is a server that reads the head of a request and responds with arbitrary bytes.
func raw(t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				r, err := nethttp.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				answer(conn)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// flood writes until the other side closes the connection.
func flood(conn net.Conn, head, again string) {
	_, err := io.WriteString(conn, head)
	for err == nil {
		_, err = io.WriteString(conn, again)
	}
}

// untilClosed waits until the other side closes the connection.
func untilClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		answer func(conn net.Conn)
		want   job.Outcome
	}{
		"endless": {
			func(c net.Conn) { flood(c, ok+"\r\n", strings.Repeat("x", 1000)) },
			job.Outcome{Kind: job.Succeeded, Status: 200},
		},
		"endless, promised": {
			func(c net.Conn) { flood(c, ok+"Content-Length: 9999999999\r\n\r\n", "x") },
			job.Outcome{Kind: job.Succeeded, Status: 200},
		},
		"endless failure": {
			func(c net.Conn) { flood(c, "HTTP/1.1 500 X\r\n\r\n", "\x00\x1b[31m") },
			job.Outcome{Kind: job.Failed, Retryable: true, Status: 500, Message: "500 Internal Server Error: "},
		},
		"header flood": {
			func(c net.Conn) { flood(c, ok, "X-A: "+strings.Repeat("x", 1000)+"\r\n") },
			job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "gave no answer that can be read"},
		},
		"one long header": {
			func(c net.Conn) { flood(c, ok+"X-A: ", strings.Repeat("x", 1000)) },
			job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "gave no answer that can be read"},
		},
		"1xx flood": {
			func(c net.Conn) { flood(c, "", "HTTP/1.1 103 Early\r\nX-A: 1\r\n\r\n") },
			job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "gave no answer that can be read"},
		},
		"not HTTP": {
			func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n") },
			job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "gave no answer that can be read"},
		},
		"says nothing": {
			func(net.Conn) {},
			job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "closed the connection before"},
		},
		"breaks off in the head": {
			func(c net.Conn) { _, _ = io.WriteString(c, ok+"X-A: 1\r\n") },
			job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "closed the connection before"},
		},
		"breaks off in the body": {
			func(c net.Conn) { _, _ = io.WriteString(c, ok+"Content-Length: 10\r\n\r\n12345") },
			job.Outcome{
				Kind: job.Failed, Retryable: true, Unknown: true, Status: 200, Message: "closed the connection before",
			},
		},
		"breaks off in a failure": {
			func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 404 X\r\nContent-Length: 10\r\n\r\n12345") },
			job.Outcome{Kind: job.Failed, Status: 404, Message: "404 Not Found: 12345"},
		},
		"switches protocols": {
			func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
				untilClosed(c)
			},
			job.Outcome{Kind: job.Failed, Status: 101, Message: "101 Switching Protocols"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newTarget(t, http.Options{}).Deliver(t.Context(), to(raw(t, c.answer)))
			require.Contains(t, got.Message, c.want.Message)
			require.LessOrEqual(t, len(got.Message), 1024)
			require.NotContains(t, got.Message, "\x1b")
			c.want.Message = got.Message
			require.Equal(t, c.want, got)
		})
	}
}

// TestResponsesStayCompressed: the target asks for no compressed response. If it did, the transport would decompress a
// zip bomb.
func TestResponsesStayCompressed(t *testing.T) {
	t.Parallel()
	target, url := setup(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			w.WriteHeader(nethttp.StatusNotAcceptable)
		}
	})
	require.Equal(t, job.Outcome{Kind: job.Succeeded, Status: 200}, target.Deliver(t.Context(), to(url)))
}

// A 2xx whose response does not end in time is not a success. The slot is free again after the timeout.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	url := raw(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1")
		untilClosed(c)
	})
	a := to(url)
	target := newTarget(t, http.Options{})
	var got job.Outcome
	// On a busy machine, the timeout may end before the beginning of the response is read: then it was too short.
	for a.Timeout = 50 * time.Millisecond; got.Status == 0 && a.Timeout < time.Hour; {
		a.Timeout *= 2
		got = target.Deliver(t.Context(), a)
		require.Equal(t, job.Failed, got.Kind)
	}
	require.Equal(t, job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Status: 200, Message: got.Message},
		got)
	require.Contains(t, got.Message, "did not answer within "+a.Timeout.String())
}

func TestNeverAccepts(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	// The caller's deadline counts too.
	got := newTarget(t, http.Options{}).Deliver(ctx, to("http://"+listener.Addr().String()))
	require.True(t, got.Retryable)
	require.Contains(t, got.Message, "did not answer within")
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(nil)
	url := srv.URL
	srv.Close()
	got := newTarget(t, http.Options{}).Deliver(t.Context(), to(url+"/path?key=1"))
	require.Equal(t, job.Outcome{
		Kind: job.Failed, Retryable: true,
		Message: url + " refused the connection; check that it is running and listens on the url's port",
	}, got)
}

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	got := newTarget(t, http.Options{}).Deliver(t.Context(), to("http://belfry.invalid/x"))
	require.True(t, got.Retryable)
	require.Contains(t, got.Message, "http://belfry.invalid has a name that")
}

func TestBadTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(nethttp.ResponseWriter, *nethttp.Request) {}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // errors are expected
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, plain := setup(t, func(nethttp.ResponseWriter, *nethttp.Request) {})
	target := newTarget(t, http.Options{})
	got := target.Deliver(t.Context(), to(srv.URL))
	require.True(t, got.Retryable)
	require.Contains(t, got.Message, "has a TLS certificate that is not trusted (x509: ")
	got = target.Deliver(t.Context(), to(strings.Replace(plain, "http:", "https:", 1)))
	require.True(t, got.Retryable)
	require.Contains(t, got.Message, "does not speak TLS there")
	old := newTarget(t, http.Options{TLS: &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	}})
	got = old.Deliver(t.Context(), to(srv.URL))
	require.True(t, got.Retryable)
	require.Contains(t, got.Message, "broke off TLS (tls: protocol version not supported)")
}

// Secrets are redacted even if they are quoted. The end of what was read is not shown, because it may be part of one.
func TestSecretsInAnswers(t *testing.T) {
	t.Parallel()
	secret := `pass"word\` + strings.Repeat("x", 3000)
	target, url := setup(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.WriteHeader(nethttp.StatusInternalServerError)
		said := r.Header.Get("X-Token")
		_, _ = fmt.Fprintf(w, "you asked %s and said %s and %q and %s", r.URL, said, said, said)
	})
	got := target.Deliver(t.Context(),
		attempt(fmt.Sprintf(`{"url": %q, "headers": {"X-Token": %q}}`, url+"/?key=query-secret", secret)))
	require.Equal(t, `500 Internal Server Error: you asked /?[hidden] and said [hidden]`, got.Message)
}
