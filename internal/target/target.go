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
)

// Target is what the list holds. Who uses it declares the part that it needs:
// the engine delivers, the API checks, the app closes.
type Target interface {
	// Deliver makes one try and says what it came to. It returns within the
	// attempt's timeout, and at once when ctx is cancelled.
	Deliver(ctx context.Context, a job.Attempt) job.Outcome
	// Check says what is wrong with a config when a job is saved, as
	// *job.Problem joined, each with its field and its fix. It does no I/O.
	Check(config json.RawMessage) error
	// Close lets go of idle connections. Deliveries under way are not touched.
	Close()
}

// Options of the targets.
type Options struct {
	// Guard is how all of them connect. Nil: to the open internet alone.
	Guard *guard.Guard
	// Secrets are what users have stored. Nil: there are none.
	Secrets secret.Source
	// Report gives the address and the token by which a receiver reports on an
	// attempt that it has accepted. Nil: it cannot.
	Report func(a job.Attempt) (url, token string)
	// Gate is passed by deliveries over the network, each to its host.
	Gate gate.Options
	// Now is the time, for signatures. Nil: the machine's.
	Now     func() time.Time
	Command *command.Target // nil: the node runs none
}

// New makes one target of each kind.
func New(opts Options) map[string]Target {
	if opts.Guard == nil {
		opts.Guard = &guard.Guard{}
	}
	brokers := broker.Options{Dialer: opts.Guard, Secrets: opts.Secrets, Report: opts.Report}
	all := map[string]Target{
		"http":  http.New(http.Options{Guard: opts.Guard, Secrets: opts.Secrets, Report: opts.Report, Now: opts.Now, Gate: gate.New(opts.Gate)}),
		"kafka": kafka.New(brokers),
		"nats":  nats.New(brokers),
		"amqp":  amqp.New(brokers),
		"noop":  noop.New(),
	}
	if opts.Command != nil {
		all["command"] = opts.Command
	}
	return all
}
