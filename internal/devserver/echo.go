package devserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/clock"
)

// maxEcho is how much of a request is read and printed.
const maxEcho = 64 << 10

// startEcho starts a server that answers every request with 200 and prints it. It returns the URL.
func startEcho(ctx context.Context, address string, p *terminal.Printer) (at string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("listen for the echo target (another address: --echo): %w", err)
	}
	lines := make(chan string)
	web := &http.Server{
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(io.LimitReader(r.Body, maxEcho)) // prints half a body too
			w.WriteHeader(http.StatusOK)
			select {
			case lines <- echoLine(r, body):
			case <-ctx.Done():
			}
		}),
	}
	go func() { _ = web.Serve(listener) }() // returns when stop closes it
	go func() {
		for {
			select {
			case l := <-lines:
				p.Line("%s", l)
			case <-ctx.Done():
				return
			}
		}
	}()
	return "http://" + listener.Addr().String(), func() { _ = web.Close() }, nil
}

// echoHeaders are the headers of a run that are printed, with their names.
var echoHeaders = []struct{ name, header string }{
	{"due", "Belfry-Due-At"}, {"attempt", "Belfry-Attempt"}, {"run", "Belfry-Run-Id"},
}

// echoLine formats a request on one line, and its body on a second one.
func echoLine(r *http.Request, body []byte) string {
	line := fmt.Sprintf("%s %s %s", terminal.Faint.Render(clock.Now().Format("15:04:05.000")),
		terminal.Green.Render(terminal.Clean(r.Method)), terminal.Clean(r.URL.Path))
	for _, h := range echoHeaders {
		if v := r.Header.Get(h.header); v != "" {
			line += " " + terminal.Faint.Render(h.name+" "+terminal.Clean(v))
		}
	}
	if len(body) > 0 {
		line += "\n             " + terminal.Clean(strings.Join(strings.Fields(string(body)), " "))
	}
	return line
}
