package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/belfry-dev/belfry/internal/job"
)

const idempotencyHeader = "Idempotency-Key"

// Idempotency makes a request that may be sent again.
type Idempotency struct {
	IdempotencyKey string `header:"Idempotency-Key" minLength:"1" maxLength:"255" pattern:"^[ -~]*$" patternDescription:"of printable ASCII characters alone" doc:"Any text of printable ASCII characters, new for each request that is meant: sent again within 24 hours, the same request gives the same answer and does nothing, and another request is refused."`
}

// once is the order's part of it; nil without a key. answer makes the output
// that is sent now, and recalled later.
func (i *Idempotency) once(operation string, request any, answer func(result any) any) (*job.IdempotentRequest, error) {
	if i.IdempotencyKey == "" {
		return nil, nil
	}
	text, err := json.Marshal([]any{operation, request})
	if err != nil {
		return nil, err
	}
	return &job.IdempotentRequest{
		Key: i.IdempotencyKey, Request: sha256.Sum256(text),
		Encode: func(result any) ([]byte, error) { return json.Marshal(answer(result)) },
	}, nil
}

// recalled is the answer to a request that was carried out before.
func recalled[T any](once *job.IdempotentRequest, err error) (*T, error) {
	if !errors.Is(err, job.ErrAlreadyDone) {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(once.Answer, out)
}

// refused is the problem of a change that may have a key and a version.
func (s *Server) refused(ctx context.Context, err error, m *Precondition) error {
	if errors.Is(err, job.ErrKeyUsed) {
		p := newProblem("invalid", "the Idempotency-Key was used for another request in the last 24 hours")
		p.Problems = []FieldProblem{{Field: "Idempotency-Key", Problem: "it was used for another request", Fix: "use a new key for each request that is meant"}}
		return p
	}
	return s.changed(ctx, err, m)
}
