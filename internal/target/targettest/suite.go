package targettest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// Secret must be part of what Server.Config returns, where the target keeps credentials: in plain text, or
// as {"secret": SecretName}. It must appear in no outcome and in no log.
const (
	Secret     = "canary-4f1d9c0be7" //nolint:gosec // not a credential: tests search for it
	SecretName = "canary"
)

// secrets implements Environment.Secrets.
type secrets struct{ binding access.SecretBinding }

func (s *secrets) Secret(
	_ context.Context, _ uuid.UUID, name string, use access.SecretUse,
) (access.Secret, error) {
	if name != SecretName {
		return access.Secret{}, secret.ErrNone
	}
	if err := s.binding.Check(name, use); err != nil {
		return access.Secret{}, err
	}
	return access.Secret{Values: []string{Secret}}, nil
}

const (
	// patience is how long a step may take that nothing delays. It only keeps a failing test from hanging.
	patience = time.Minute
	// short is the timeout of attempts that must time out.
	short = 150 * time.Millisecond
	// maxMessage is the maximum length of a message in bytes. It is stored with each attempt.
	maxMessage = 1024
)

// Target is the subject of the tests.
type Target interface {
	Deliver(ctx context.Context, a job.Attempt) job.Outcome
	Check(config json.RawMessage) error
	Uses(config json.RawMessage) secret.Uses
	Close()
}

// Behaviour of a server.
type Behaviour int

// The behaviours.
const (
	Succeed       Behaviour = iota + 1
	FailRetryable           // fails for now
	FailFinal               // fails permanently
	Hang                    // accepts deliveries, does not respond before Release, then succeeds
	Huge                    // succeeds with a response of many megabytes
	HugeFailure             // fails for now with a response of many megabytes
	Echo                    // fails for now and repeats everything it received, including credentials
	Down                    // is unreachable
)

// Server receives what a target delivers.
type Server interface {
	// Behave changes how the server responds from now on. After Down it returns at the same address.
	Behave(b Behaviour)
	// Release responds to the deliveries that Hang has accepted.
	Release()
	// Config returns a config that delivers to this server and contains Secret.
	Config() json.RawMessage
	// Received returns the deliveries in the order in which they arrive. The channel is never closed and
	// has a buffer for all deliveries of a test.
	Received() <-chan Delivery
}

// Delivery is what a server received.
type Delivery struct {
	IdempotencyKey string
	RunID          string
	JobID          string
	DueAt          string
	Attempt        string
	Traceparent    string
	Payload        string
}

// Environment is what the suite passes to the constructor of a target.
type Environment struct {
	Guard *guard.Guard // allows connections to this machine
	// Secrets contains Secret under the name SecretName in every namespace.
	Secrets secret.Source
	Log     *slog.Logger // for targets and clients that log; the suite fails if Secret appears in it
}

// Suite describes the target to test.
type Suite struct {
	New func(t *testing.T, e Environment) Target
	// Start starts a server and stops it when the test ends. Nil: the target has no server.
	Start func(t *testing.T) Server
	// Concurrent is the number of concurrent deliveries; 0: 32.
	Concurrent int
}

// Run the tests.
func Run(t *testing.T, s Suite) {
	t.Helper()
	for _, c := range cases {
		if s.Start == nil && c.needsServer {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, s)
			if s.Start != nil {
				b.server = s.Start(t)
				b.config = b.server.Config()
			}
			c.test(b)
		})
	}
}

// bundle is what a case uses.
type bundle struct {
	*testing.T
	target Target
	server Server
	config json.RawMessage
	stored *secrets

	concurrent int
}

func newBundle(t *testing.T, s Suite) *bundle {
	t.Helper()
	connect, err := guard.New(guard.Options{Allow: []string{"127.0.0.0/8", "::1/128"}})
	if err != nil {
		t.Fatal(err)
	}
	logged := &logBuffer{}
	log := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := &bundle{T: t, config: json.RawMessage(`{}`), stored: &secrets{}, concurrent: cmp.Or(s.Concurrent, 32)}
	b.target = s.New(t, Environment{Guard: connect, Secrets: b.stored, Log: log})
	t.Cleanup(func() {
		b.target.Close()
		if text := logged.String(); strings.Contains(text, Secret) {
			t.Errorf("the log contains the secret:\n%s", text)
		}
	})
	return b
}

// logBuffer collects what a target logs from many goroutines.
type logBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (b *bundle) attempt(number int16, timeout time.Duration) job.Attempt {
	id := uuid.MustParse("01920000-0000-7000-8000-0123456789ab")
	return job.Attempt{
		Key: job.Key{
			Partition: job.PartitionOf(id), Job: id,
			DueAt: time.Date(2026, 3, 29, 1, 30, 0, 120_000, time.UTC), Seq: 2,
		},
		Number: number, Timeout: timeout, Config: string(b.config), Payload: `{"say": "hello"}`,
	}
}

// deliver makes one delivery and checks what must hold for every outcome.
func (b *bundle) deliver(ctx context.Context, a job.Attempt) job.Outcome {
	b.Helper()
	out := b.target.Deliver(ctx, a)
	switch {
	case strings.Contains(out.Message, Secret):
		b.Errorf("the message contains the secret: %q", out.Message)
	case len(out.Message) > maxMessage:
		b.Errorf("the message has %d bytes; at most %d are stored", len(out.Message), maxMessage)
	case !utf8.ValidString(out.Message) || strings.ContainsFunc(out.Message, unicode.IsControl):
		b.Errorf("the message is not printable: %q", out.Message)
	case out.Kind == job.Failed && out.Message == "":
		b.Error("a failure without a message")
	}
	return out
}

// start delivers in the background and sends the outcome to the channel.
func (b *bundle) start(ctx context.Context, a job.Attempt) <-chan job.Outcome {
	done := make(chan job.Outcome, 1)
	go func() { done <- b.deliver(ctx, a) }()
	return done
}

// want compares the fields of an outcome that decisions depend on.
func (b *bundle) want(out job.Outcome, kind job.OutcomeKind, retryable bool) {
	b.Helper()
	if out.Kind != kind || out.Retryable != retryable {
		b.Errorf("outcome %+v; want kind %d, retryable %t", out, kind, retryable)
	}
}

// await receives a value that must arrive.
func await[T any](b *bundle, what string, from <-chan T) T {
	b.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		b.Fatalf("timed out while waiting for %s", what)
		panic("unreachable") //nolint:forbidigo // the compiler does not know that Fatalf does not return
	}
}
