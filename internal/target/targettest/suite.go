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

// Secret must be part of what Server.Config returns, where the target keeps
// credentials: as it is, or as {"secret": SecretName}. It must come up in no
// outcome and in no log.
const (
	Secret     = "canary-4f1d9c0be7" //nolint:gosec // no credential: it is there to be looked for
	SecretName = "canary"
)

// secrets are those of Given.
type secrets struct{}

func (secrets) Secret(_ context.Context, _ uuid.UUID, name string) (access.Secret, error) {
	if name != SecretName {
		return access.Secret{}, secret.ErrNone
	}
	return access.Secret{Values: []string{Secret}}, nil
}

const (
	// patience is how long a step may take that nothing hinders. It decides
	// nothing: it makes a test fail that would hang.
	patience = time.Minute
	// short is the timeout of attempts that are to run into it.
	short = 150 * time.Millisecond
	// maxMessage of an outcome, in bytes: it is stored with each attempt.
	maxMessage = 1024
)

// Target is what is tested.
type Target interface {
	Deliver(ctx context.Context, a job.Attempt) job.Outcome
	Check(config json.RawMessage) error
	Close()
}

// Behaviour of a server from now on.
type Behaviour int

// The behaviours.
const (
	Succeed       Behaviour = iota + 1
	FailRetryable           // says: not now
	FailFinal               // says: never
	Hang                    // takes deliveries and says nothing before Release; then succeeds
	Huge                    // succeeds with an answer of many megabytes
	HugeFailure             // says not now, in many megabytes
	Echo                    // says not now, and repeats all that it was sent, credentials too
	Down                    // cannot be reached
)

// Server is where a target delivers to.
type Server interface {
	// Behave so until told otherwise. After Down it comes back at the same address.
	Behave(b Behaviour)
	// Release lets the deliveries go that Hang holds.
	Release()
	// Config is one that leads here, with Secret in it.
	Config() json.RawMessage
	// Received tells each delivery once it has arrived. It is never closed, and
	// holds as many as a test makes.
	Received() <-chan Delivery
}

// Delivery is what a server was told.
type Delivery struct {
	IdempotencyKey string
	RunID          string
	JobID          string
	DueAt          string
	Attempt        string
	Traceparent    string
	Payload        string
}

// Given is what a target is made with.
type Given struct {
	Guard *guard.Guard // lets it connect to this machine
	// Secrets has Secret under the name SecretName in every namespace.
	Secrets secret.Source
	Log     *slog.Logger // for targets that log, or whose clients do; Secret must not be in it
}

// Suite is one target with its way to a server.
type Suite struct {
	New func(t *testing.T, g Given) Target
	// Start a server that is stopped when the test ends. Nil: there is none.
	Start func(t *testing.T) Server
	// Concurrent is how many deliveries are made at once; 0: 32.
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

// bundle is what a case works with.
type bundle struct {
	*testing.T
	target Target
	server Server
	config json.RawMessage

	concurrent int
}

func newBundle(t *testing.T, s Suite) *bundle {
	t.Helper()
	connect, err := guard.New(guard.Options{Allow: []string{"127.0.0.0/8", "::1/128"}})
	if err != nil {
		t.Fatal(err)
	}
	said := &log{}
	b := &bundle{T: t, config: json.RawMessage(`{}`), concurrent: cmp.Or(s.Concurrent, 32)}
	b.target = s.New(t, Given{Guard: connect, Secrets: secrets{}, Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	t.Cleanup(func() {
		b.target.Close()
		if text := said.String(); strings.Contains(text, Secret) {
			t.Errorf("the log tells the secret:\n%s", text)
		}
	})
	return b
}

// log is what a target logs, from many goroutines.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (b *bundle) attempt(number int16, timeout time.Duration) job.Attempt {
	id := uuid.MustParse("01920000-0000-7000-8000-0123456789ab")
	return job.Attempt{
		Key:    job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 3, 29, 1, 30, 0, 120_000, time.UTC), Seq: 2},
		Number: number, Timeout: timeout, Config: string(b.config), Payload: `{"say": "hello"}`,
	}
}

// deliver once, and check what holds for every outcome.
func (b *bundle) deliver(ctx context.Context, a job.Attempt) job.Outcome {
	b.Helper()
	out := b.target.Deliver(ctx, a)
	switch {
	case strings.Contains(out.Message, Secret):
		b.Errorf("the message tells the secret: %q", out.Message)
	case len(out.Message) > maxMessage:
		b.Errorf("the message has %d bytes; at most %d are stored", len(out.Message), maxMessage)
	case !utf8.ValidString(out.Message) || strings.ContainsFunc(out.Message, unicode.IsControl):
		b.Errorf("the message cannot be shown: %q", out.Message)
	case out.Kind == job.Failed && out.Message == "":
		b.Error("a failure without a message")
	}
	return out
}

// start delivers beside the test; the outcome comes through the channel.
func (b *bundle) start(ctx context.Context, a job.Attempt) <-chan job.Outcome {
	done := make(chan job.Outcome, 1)
	go func() { done <- b.deliver(ctx, a) }()
	return done
}

// want compares the bits that decisions are made from.
func (b *bundle) want(out job.Outcome, kind job.OutcomeKind, retryable bool) {
	b.Helper()
	if out.Kind != kind || out.Retryable != retryable {
		b.Errorf("outcome %+v; want kind %d, retryable %t", out, kind, retryable)
	}
}

// await receives what must come.
func await[T any](b *bundle, what string, from <-chan T) T {
	b.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		b.Fatalf("waited in vain for %s", what)
		panic("unreachable") //nolint:forbidigo // Fatalf does not return, which the compiler cannot know
	}
}
