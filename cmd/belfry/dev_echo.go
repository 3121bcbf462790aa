package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

// maxEcho bounds what is read and printed of a request.
const maxEcho = 64 << 10

// echo answers every request with 200 and prints what it received.
func echo(ctx context.Context, address string, p *printer) (at string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("listen for the echo target (another address: --echo): %w", err)
	}
	lines := make(chan string)
	web := &http.Server{
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(io.LimitReader(r.Body, maxEcho)) // half a body is shown too
			w.WriteHeader(http.StatusOK)
			select {
			case lines <- echoLine(r, body):
			case <-ctx.Done():
			}
		}),
	}
	go func() { _ = web.Serve(listener) }() // it returns when it is closed
	go func() {
		for {
			select {
			case l := <-lines:
				p.line("%s", l)
			case <-ctx.Done():
				return
			}
		}
	}()
	return "http://" + listener.Addr().String(), func() { _ = web.Close() }, nil
}

// echoLine is a request on one line.
func echoLine(r *http.Request, body []byte) string {
	line := fmt.Sprintf("%s %s %s", faint.Render(clock.Now().Format("15:04:05.000")), green.Render(clean(r.Method)), clean(r.URL.Path))
	for _, f := range []field{{"due", "Belfry-Due-At"}, {"attempt", "Belfry-Attempt"}, {"run", "Belfry-Run-Id"}} {
		if v := r.Header.Get(f.value); v != "" {
			line += " " + faint.Render(f.name+" "+clean(v))
		}
	}
	if len(body) > 0 {
		line += "\n             " + clean(strings.Join(strings.Fields(string(body)), " "))
	}
	return line
}
