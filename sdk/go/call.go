package belfry

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"
)

// CallOption changes a single call, for example IfVersion.
type CallOption = RequestEditorFn

// IfVersion makes the server reject a change of a job with the code precondition_failed if the job has another version
// by then.
func IfVersion(version int32) CallOption { return header("If-Match", IfMatch(version)) }

// IdempotencyKey identifies a request. If the server receives a request with the same key again within 24 hours, it
// returns its first response and does nothing. Methods that create something generate a key for each call, so that the
// client can repeat the request. Set your own key to be able to repeat the call after your program was restarted.
func IdempotencyKey(key string) CallOption { return header(idempotencyKey, key) }

const idempotencyKey = "Idempotency-Key"

func header(name, value string) CallOption {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set(name, value)
		return nil
	}
}

// withKey puts a generated idempotency key before the options of a call, which may replace it.
func withKey(opts []CallOption) []CallOption {
	return append([]CallOption{IdempotencyKey(rand.Text())}, opts...)
}

// response is a response of the generated client.
type response interface{ Status() string }

// result returns the decoded body of a response. It is nil if the response was not JSON.
func result[T any](body *T, r response) (*T, error) {
	if body == nil {
		return nil, fmt.Errorf("belfry: the server answered %s, and not as Belfry does; "+
			"is its URL right, and is there a proxy between?", r.Status())
	}
	return body, nil
}

// optional returns a pointer to a parameter, or nil if it has its zero value: then it is not sent.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
