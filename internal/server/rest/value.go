package rest

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// JSON is any JSON value, kept as it was written.
type JSON json.RawMessage

// Schema is called by huma.
func (JSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// MarshalJSON returns the value as it is.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON keeps the value as it is.
func (j *JSON) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(j).UnmarshalJSON(data) }

// Raw returns the value, or nil for a literal null, which means that nothing was sent.
func (j JSON) Raw() json.RawMessage {
	if string(j) == "null" {
		return nil
	}
	return json.RawMessage(j)
}

// Duration is a string such as 30s, 15m, 1h30m or 7d. Empty means the default.
type Duration string

// Schema is called by huma.
func (Duration) Schema(huma.Registry) *huma.Schema {
	maxLength := 32
	return &huma.Schema{Type: "string", MaxLength: &maxLength}
}

// Parse reads the duration of a field. It returns fallback if there is none, and a problem with an
// example if it is not a duration.
func (d Duration) Parse(field string, fallback time.Duration, example string) (time.Duration, error) {
	out := job.Duration(fallback)
	if d == "" {
		return fallback, nil
	}
	if err := out.UnmarshalText([]byte(d)); err != nil {
		if out.UnmarshalText([]byte(strings.TrimPrefix(string(d), "-"))) == nil {
			return 0, &problem.Problem{Field: field, Problem: "it is negative", Fix: "write for example " + example}
		}
		return 0, &problem.Problem{Field: field, Problem: "it is not a duration", Fix: "write for example " + example}
	}
	return time.Duration(out), nil
}

// OptionalTime returns nil for the zero time, so that JSON leaves it out.
func OptionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// OptionalParam is a query parameter where the zero value differs from none.
type OptionalParam[T any] struct {
	Value T
	Set   bool
}

// Schema is called by huma: the schema is that of the value.
func (OptionalParam[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver is called by huma: it returns where the value goes.
func (p *OptionalParam[T]) Receiver() reflect.Value { return reflect.ValueOf(p).Elem().Field(0) }

// OnParamSet is called by huma.
func (p *OptionalParam[T]) OnParamSet(set bool, _ any) { p.Set = set }
