package rest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/job"
)

const idempotencyHeader = "Idempotency-Key"

// Idempotency is the input of operations that take an Idempotency-Key.
type Idempotency struct {
	IdempotencyKey IdempotencyKey `header:"Idempotency-Key"`
}

// IdempotencyKey is the value of the header Idempotency-Key.
type IdempotencyKey string

// Schema is called by huma.
func (IdempotencyKey) Schema(huma.Registry) *huma.Schema {
	minLength, maxLength := 1, 255
	return &huma.Schema{
		Type: "string", MinLength: &minLength, MaxLength: &maxLength,
		Pattern: "^[ -~]*$", PatternDescription: "of printable ASCII characters alone",
		Description: "Any string of printable ASCII characters, unique for each intended request. " +
			"If the same request is sent again with the key within 24 hours, it changes nothing and " +
			"gets the first response. Another request with the same key is rejected.",
	}
}

// Request returns what the store needs to carry out a request once; nil without a key. response makes
// the output of the result, which the store keeps for repetitions of the request.
func (i *Idempotency) Request(
	operation string, request any, response func(result any) any,
) (*job.IdempotentRequest, error) {
	if i.IdempotencyKey == "" {
		return nil, nil
	}
	text, err := json.Marshal([]any{operation, request})
	if err != nil {
		return nil, err
	}
	return &job.IdempotentRequest{
		Key: string(i.IdempotencyKey), Request: sha256.Sum256(text),
		Encode: func(result any) ([]byte, error) { return json.Marshal(response(result)) },
	}, nil
}

// Once carries out a change and returns its response. If the request repeats an earlier one with the
// same Idempotency-Key, Once returns the stored response instead, and nothing changes.
func Once[T, Out any](
	i *Idempotency, operation string, request any, response func(T) *Out,
	change func(*job.IdempotentRequest) (T, error),
) (*Out, error) {
	once, err := i.Request(operation, request, func(result any) any { return response(result.(T)) })
	if err != nil {
		return nil, err
	}
	result, err := change(once)
	if err != nil {
		return Recalled[Out](once, err)
	}
	return response(result), nil
}

// Recalled returns the stored response if err says that the request was carried out before, else err.
func Recalled[T any](once *job.IdempotentRequest, err error) (*T, error) {
	if !errors.Is(err, job.ErrAlreadyDone) {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(once.Response, out) //nolint:forbidigo // the server wrote it
}
