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
	bodyTimeout  = 5 * time.Second // for operations that say nothing else
	perValue     = 64              // bytes of memory of a decoded value, besides its text
	leastMemory  = 16 << 10        // that a body counts for, however small it is
	leastValues  = 1000
	jsonBody     = "application/json"
	mergePatch   = "application/merge-patch+json"
	sharesBodies = "the bodies of requests that are under way need more memory than this node has for them"
)

// memoryOf estimates the memory that a body needs until its request ends: its text, a copy of it, and its values.
func memoryOf(size int64, values int) int64 { return max(2*size, leastMemory) + int64(values)*perValue }

// bodyMemory is the memory that one body has taken from the pool.
type bodyMemory struct {
	pool  *share.Pool
	owner uuid.UUID
	taken int64
}

func (m *bodyMemory) take(n int64) *Problem {
	switch err := m.pool.Take(m.owner, n); {
	case errors.Is(err, share.ErrMost):
		return NewProblem("rate_limited", sharesBodies+
			", and this namespace has its share; wait for answers, or send less at once")
	case err != nil:
		return NewProblem("unavailable", sharesBodies+"; try again")
	}
	m.taken = n
	return nil
}

// shrink returns all but n to the pool.
func (m *bodyMemory) shrink(n int64) {
	if m.taken > n {
		m.pool.Give(m.owner, m.taken-n)
		m.taken = n
	}
}

// admitBody reads and checks the body of a request. What is wrong with its fields is reported together with what is
// wrong with the parameters, which huma checks next.
func (a *API) admitBody(ctx huma.Context, next func(huma.Context)) {
	rec := recordOf(ctx.Context())
	if ctx.Operation().RequestBody == nil || rec.body == nil {
		next(ctx)
		return
	}
	memory := &rec.memory
	memory.pool, memory.owner = a.bodies, namespaceOf(ctx.Context())
	defer memory.shrink(0)
	rec.slot.give() // a client that sends slowly must not keep others from the node
	text, p := readBody(ctx, rec.body, memory)
	if p == nil {
		p = rec.slot.take(memory.owner)
	}
	if p != nil {
		a.reject(ctx, p)
		return
	}
	content := ctx.Operation().RequestBody.Content
	r, _ := humago.Unwrap(ctx)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if len(text) > 0 && (content[jsonBody] != nil || content[mergePatch] != nil) {
		values, err := body.Check(text, operationOf(ctx.Operation()).maxValues)
		if err != nil {
			a.reject(ctx, err)
			return
		}
		memory.shrink(memoryOf(int64(len(text)), values))
		if content[mergePatch] == nil { // the operation itself reads a patch, with what it changes
			rec.bad = a.validateBody(content[jsonBody].Schema, text)
		}
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
func readBody(ctx huma.Context, from io.Reader, memory *bodyMemory) (text []byte, p *Problem) {
	r, w := humago.Unwrap(ctx)
	o := operationOf(ctx.Operation())
	size := r.ContentLength
	if size > o.MaxBody {
		return nil, NewProblem("too_large", tooLarge(&o))
	}
	if size < 0 {
		size = o.MaxBody // it is not known
	}
	// Until the body is there, each second byte may be a value.
	if p := memory.take(memoryOf(size, min(int(size/2), o.maxValues))); p != nil {
		return nil, p
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(clock.Now().Add(o.BodyTimeout)) // connections of tests may have none
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	var err error
	if r.ContentLength >= 0 {
		text = make([]byte, size)
		_, err = io.ReadFull(from, text)
	} else {
		text, err = io.ReadAll(io.LimitReader(from, size+1))
	}
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		p := NewProblem("bad_request", "the body took too long to arrive; send it faster, or less at once")
		p.Status = http.StatusRequestTimeout
		return nil, p
	case err != nil:
		return nil, NewProblem("bad_request", "the body broke off before its end")
	case int64(len(text)) > o.MaxBody:
		return nil, NewProblem("too_large", tooLarge(&o))
	}
	return text, nil
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
	return a.validate(schema, value)
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
