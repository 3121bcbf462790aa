package brokertest

import (
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// Payload is what the conformance suite sends, and what answers are held back after.
const Payload = `{"say": "hello"}`

// Server is a real broker behind a proxy, as targettest wants it.
type Server struct {
	*Proxy
	Settings string // a config
	// Allow and Refuse make the broker itself take messages, or refuse them for now or for good.
	Allow, RefuseNow, RefuseForGood func()
	Messages                        chan targettest.Delivery
}

// Behave is for targettest. Brokers have no answers to speak of: a huge one, or
// one that repeats what was sent, is just an answer.
func (s *Server) Behave(b targettest.Behaviour) {
	s.Allow()
	if b != targettest.Down {
		s.Up()
	}
	switch b {
	case targettest.FailRetryable, targettest.HugeFailure, targettest.Echo:
		s.RefuseNow()
	case targettest.FailFinal:
		s.RefuseForGood()
	case targettest.Hang:
		s.Hold(Payload)
	case targettest.Down:
		s.Down()
	case targettest.Succeed, targettest.Huge:
	}
}

// Config is for targettest.
func (s *Server) Config() json.RawMessage { return json.RawMessage(s.Settings) }

// Received is for targettest.
func (s *Server) Received() <-chan targettest.Delivery { return s.Messages }

// Delivery is a message as targettest compares it.
func Delivery(header func(name string) string, payload []byte) targettest.Delivery {
	return targettest.Delivery{
		IdempotencyKey: header(broker.IdempotencyKey), RunID: header(broker.RunID), JobID: header(broker.JobID), DueAt: header(broker.DueAt),
		Attempt: header(broker.Attempt), Traceparent: header(broker.Traceparent), Payload: string(payload),
	}
}
