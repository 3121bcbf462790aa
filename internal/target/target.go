package target

import (
	"context"
	"encoding/json"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/amqp"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/http"
	"github.com/belfry-dev/belfry/internal/target/kafka"
	"github.com/belfry-dev/belfry/internal/target/nats"
	"github.com/belfry-dev/belfry/internal/target/noop"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/worker"
)

// Target is one kind of target. Its users declare the methods they need: the engine delivers, the API
// checks, the app closes.
type Target interface {
	// Deliver makes one attempt and returns its outcome. It returns within the attempt's timeout, and
	// immediately when ctx is cancelled.
	Deliver(ctx context.Context, a job.Attempt) job.Outcome
	// Check reports what is wrong with a config when a job is saved, as joined *problem.Problem, each with its
	// field and a fix. It does no I/O.
	Check(config json.RawMessage) error
	// Uses returns the secrets that a valid config names, and where it uses them.
	Uses(config json.RawMessage) secret.Uses
	// Close closes idle connections. Deliveries in progress continue.
	Close()
}

// Options of the targets.
type Options struct {
	// Guard opens all connections. Nil: only the public internet can be reached.
	Guard *guard.Guard
	// Secrets are the stored secrets. Nil: there are none.
	Secrets secret.Source
	// Report returns the URL and the token with which a receiver reports on an attempt that it has
	// accepted. Nil: receivers cannot report.
	Report func(a job.Attempt) (url, token string)
	// Brokers are the brokers that the operator has set. Nil: there are none.
	Brokers broker.Source
	// Encrypted means that no secret is sent over a network without encryption.
	Encrypted bool
	// Gate limits the deliveries per host and per namespace.
	Gate gate.Options
	// Now returns the time for signatures. Nil: the machine's clock.
	Now     func() time.Time
	Command *command.Target // nil: the node runs no commands
}

// New creates one target of each kind. A kind of broker is of use when there is a broker of it.
func New(opts Options) map[string]Target {
	if opts.Guard == nil {
		opts.Guard = &guard.Guard{}
	}
	limits := gate.New(opts.Gate) // one for all, because they share the node's slots
	brokers := broker.Options{
		Brokers: opts.Brokers, Secrets: opts.Secrets, Report: opts.Report, Gate: limits, Encrypted: opts.Encrypted,
	}
	all := map[string]Target{
		"http": http.New(http.Options{
			Guard: opts.Guard, Secrets: opts.Secrets, Report: opts.Report, Now: opts.Now, Gate: limits,
		}),
		"kafka":  kafka.New(brokers),
		"nats":   nats.New(brokers),
		"amqp":   amqp.New(brokers),
		"worker": worker.New(),
	}
	if opts.Encrypted {
		all["http"] = encrypted{all["http"]}
	}
	all["noop"] = noop.New()
	if opts.Command != nil {
		all["command"] = opts.Command
	}
	return all
}
