package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Sink receives http runs in a child process. It prints its URL and, when its input ends, the id of each run that it
// received, in order.
func Sink(ctx context.Context, p Pipes) error {
	ctx, cancel := untilEOF(ctx, p.Stdin)
	defer cancel()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for runs: %w", err)
	}
	if _, err := fmt.Fprintf(p.Stdout, "http://%s/\n", listener.Addr()); err != nil {
		return err
	}
	r := &receipts{}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	<-ctx.Done()
	if err := server.Close(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = p.Stdout.Write(r.ids)
	return err
}

// receipts records the id of each run before it replies. It must be cheap, because it shares the machine with the node.
type receipts struct {
	mu  sync.Mutex
	ids []byte // one per line
}

func (r *receipts) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get("Idempotency-Key")
	r.mu.Lock()
	r.ids = append(append(r.ids, id...), '\n')
	r.mu.Unlock()
	w.Header()["Date"] = nil // formatting it costs more than all of the above
}

// sink is the parent's view of the Sink process.
type sink struct {
	child    *child
	url      chan string
	received map[string]int // by run id; complete once the process has ended
}

func newSink() *sink { return &sink{url: make(chan string, 1), received: map[string]int{}} }

func (b *bench) startSink(ctx context.Context) (*sink, error) {
	s := newSink()
	var err error
	if s.child, err = spawn(ctx, "", []string{"sink"}, s.read, b.fail); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sink) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	if lines.Scan() {
		s.url <- lines.Text()
	}
	for lines.Scan() {
		s.received[strings.TrimSpace(lines.Text())]++
	}
	return lines.Err()
}
