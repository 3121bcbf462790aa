package brokertest

import (
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// Payload is what the conformance suite sends. The proxy can withhold responses once it has seen it.
const Payload = `{"say": "hello"}`

// Server is a real broker behind a proxy. It implements targettest.Server.
type Server struct {
	*Proxy
	Settings string // a config
	// These make the broker accept messages, or reject them for now or permanently.
	Allow, RefuseNow, RefuseFinally func()
	Messages                        chan targettest.Delivery
}

// Behave implements targettest.Server. Responses of brokers have no body, so a huge response, or one that
// repeats what was sent, is an ordinary one.
func (s *Server) Behave(b targettest.Behaviour) {
	s.Allow()
	if b != targettest.Down {
		s.Up()
	}
	switch b {
	case targettest.FailRetryable, targettest.HugeFailure, targettest.Echo:
		s.RefuseNow()
	case targettest.FailFinal:
		s.RefuseFinally()
	case targettest.Hang:
		s.Withhold(Payload)
	case targettest.Down:
		s.Down()
	case targettest.Succeed, targettest.Huge:
	}
}

// Config implements targettest.Server.
func (s *Server) Config() json.RawMessage { return json.RawMessage(s.Settings) }

// Received implements targettest.Server.
func (s *Server) Received() <-chan targettest.Delivery { return s.Messages }

// Delivery returns a message in the form that targettest compares.
func Delivery(header func(name string) string, payload []byte) targettest.Delivery {
	return targettest.Delivery{
		IdempotencyKey: header(broker.IdempotencyKey),
		RunID:          header(broker.RunID),
		JobID:          header(broker.JobID),
		DueAt:          header(broker.DueAt),
		Attempt:        header(broker.Attempt),
		Traceparent:    header(broker.Traceparent),
		Payload:        string(payload),
	}
}
