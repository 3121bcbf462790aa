package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/share"
)

// This is the one door for request bodies. No handler gets the body of a client: limit takes it away, and admitBody
// returns it once it has been read, within the size, the time and the memory that it may use, and checked. While a body
// arrives, its request has no slot: memory and time bound how many do.

const (
	leastValues = 1000
	jsonBody    = "application/json"
	mergePatch  = "application/merge-patch+json"
)

// admitBody reads and checks the body of a request. What is wrong with its fields is reported together with what is
// wrong with the parameters, which huma checks next.
func (a *API) admitBody(ctx huma.Context, next func(huma.Context)) {
	rec := recordOf(ctx.Context())
	if ctx.Operation().RequestBody == nil || rec.body == nil {
		next(ctx)
		return
	}
	namespace := namespaceOf(ctx.Context())
	rec.memory = a.bodies.For(namespace)
	defer rec.memory.Shrink(0)
	rec.slot.give() // a client that sends slowly must not keep others from the node
	text, err := readBody(ctx, rec.body, &rec.memory)
	if err != nil {
		a.reject(ctx, err)
		return
	}
	if p := rec.slot.take(namespace); p != nil {
		a.reject(ctx, p)
		return
	}
	content := ctx.Operation().RequestBody.Content
	r, _ := humago.Unwrap(ctx)
	r.Body = io.NopCloser(bytes.NewReader(text))
	isJSON := len(text) > 0 && (content[jsonBody] != nil || content[mergePatch] != nil)
	if err := rec.memory.Count(text, isJSON, operationOf(ctx.Operation()).maxValues); err != nil {
		a.reject(ctx, err)
		return
	}
	if isJSON && content[mergePatch] == nil { // the operation itself reads a patch, with what it changes
		rec.bad = a.validateBody(content[jsonBody].Schema, text)
	}
	if rec.bad != nil {
		r.Body = http.NoBody // nothing is made of it
	}
	next(ctx)
}

// namespaceOf returns the namespace that a request is for. Requests without a key share one.
func namespaceOf(ctx context.Context) uuid.UUID {
	if r := Report(ctx); r.Namespace != uuid.Nil {
		return r.Namespace
	}
	return Principal(ctx).Namespace
}

// readBody reads a body of at most the size that its operation takes, in at most the time that it gives.
func readBody(ctx huma.Context, from io.Reader, memory *body.Memory) (text []byte, err error) {
	r, w := humago.Unwrap(ctx)
	o := operationOf(ctx.Operation())
	size := r.ContentLength
	if size > o.MaxBody {
		return nil, NewProblem("too_large", tooLarge(&o))
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(clock.Now().Add(o.BodyTimeout)) // connections of tests may have none
	text, err = memory.Read(from, int(size), int(o.MaxBody))
	if err == nil && int64(len(text)) <= o.MaxBody {
		_ = control.SetReadDeadline(time.Time{})
		return text, nil
	}
	// The deadline stays, because net/http reads more of the body before it answers, and when it closes the connection.
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	var timeout net.Error
	switch {
	case errors.Is(err, share.ErrMost), errors.Is(err, share.ErrFull):
		return nil, err
	case errors.As(err, &timeout) && timeout.Timeout():
		p := NewProblem("bad_request", "the body took too long to arrive; send it faster, or less at once")
		p.Status = http.StatusRequestTimeout
		return nil, p
	case err != nil:
		return nil, NewProblem("bad_request", "the body broke off before its end")
	}
	return nil, NewProblem("too_large", tooLarge(&o))
}

// validateBody returns what is wrong with a JSON body by the schema of its operation; nil: nothing.
func (a *API) validateBody(schema *huma.Schema, text []byte) *Problem {
	var value any
	if err := body.Unmarshal(text, &value); err != nil {
		v := validator{api: a, body: schema}
		p := NewProblem("bad_request", seeProblems)
		p.Problems = v.explain(&huma.ErrorDetail{Location: "body", Message: err.Error()})
		return p
	}
	if err := body.CheckMembers(text); err != nil {
		found := problem.All(err)[0]
		return listProblems([]FieldProblem{{found.Field, found.Problem, found.Fix}})
	}
	return a.validate(schema, value, maxProblems)
}

// valuesOf returns how many values a valid body has at most, but no fewer than leastValues, so that what is wrong with
// a small body is found by its schema.
func (a *API) valuesOf(o *huma.Operation) int {
	if o.RequestBody == nil || o.RequestBody.Content[jsonBody] == nil {
		return body.MaxValues
	}
	return max(leastValues, a.valuesBy(o.RequestBody.Content[jsonBody].Schema))
}

func (a *API) valuesBy(s *huma.Schema) int {
	s = validator{api: a}.resolve(s)
	values := 1
	switch {
	case s == nil, s.Type == "", s.Type == huma.TypeArray && s.MaxItems == nil:
		return body.MaxValues // alternatives, or any JSON
	case s.Type == huma.TypeArray:
		values += *s.MaxItems * min(a.valuesBy(s.Items), body.MaxValues)
	}
	for _, property := range s.Properties {
		values += a.valuesBy(property)
	}
	if _, ok := s.AdditionalProperties.(*huma.Schema); ok {
		values += maxMembers
	}
	return min(values, body.MaxValues)
}
