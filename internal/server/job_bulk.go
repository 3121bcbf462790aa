package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// The limits of a bulk.
const (
	bulkPath     = "/jobs:bulk"
	maxBulkLines = 5000
	maxBulkBody  = 16 << 20
)

func (s *Server) registerBulkCreate() {
	bulk := operation("create-jobs", http.MethodPost, bulkPath, "Create many jobs", access.Editor)
	bulk.Description = fmt.Sprintf(`The body is NDJSON: on each line a job as in create-job, at most %d lines and %d MB.

Each line stands for itself: the answer has, in the order of the lines, the id of the job that was made, or the problem because of which it was not; the status is 200 also if no line was good. Jobs are made in transactions of %d lines: an interruption leaves those behind whose transaction was over. With an Idempotency-Key the same request can be sent again, and makes what is missing.

A node works on few bulks at once, and on fewer of one key: one that is told so (429, 503) comes again later.`,
		maxBulkLines, maxBulkBody>>20, job.MaxBulk)
	bulk.MaxBodyBytes, bulk.BodyReadTimeout, bulk.Middlewares = maxBulkBody, readTimeout, huma.Middlewares{s.gated}
	huma.Register(s.api, bulk, s.createJobs)
	s.api.OpenAPI().Paths["/api/v1"+bulkPath].Post.RequestBody.Content["application/x-ndjson"] = &huma.MediaType{
		Schema:  &huma.Schema{Type: huma.TypeString, MinLength: ptr(1), Description: "A job on each line."},
		Example: `{"name":"first","schedule":"0 9 * * 1-5","target":{"kind":"noop"}}` + "\n" + `{"name":"second","schedule":"every 15m","target":{"kind":"noop"}}` + "\n",
	}
}

// bodyLimit is how large the body of a request may be.
func bodyLimit(r *http.Request) int64 {
	switch {
	case strings.HasSuffix(r.URL.Path, bulkPath):
		return maxBulkBody
	case strings.HasSuffix(r.URL.Path, "/sessions"), strings.HasSuffix(r.URL.Path, ":heartbeat"):
		return maxLeases
	}
	return maxBody
}

type createJobsInput struct {
	Idempotency
	RawBody []byte `contentType:"application/x-ndjson"`
}

type createJobsOutput struct {
	Body struct {
		Created int          `json:"created" doc:"How many were made."`
		Refused int          `json:"refused" doc:"How many were not."`
		Items   []BulkResult `json:"items" doc:"One for each line that is not empty."`
	}
}

// BulkResult is what a line came to.
type BulkResult struct {
	Line    int      `json:"line" doc:"The line, from 1."`
	ID      string   `json:"id,omitempty" doc:"Of the job that was made."`
	Problem *Problem `json:"problem,omitempty" doc:"Why none was made."`
}

func (s *Server) createJobs(ctx context.Context, in *createJobsInput) (*createJobsOutput, error) {
	lines, err := splitLines(in.RawBody)
	if err != nil {
		return nil, err
	}
	out := &createJobsOutput{}
	var request [32]byte
	if in.IdempotencyKey != "" {
		request = sha256.Sum256(append([]byte("create-jobs\n"), in.RawBody...))
	}
	var failure *Problem
	reached := false
	for part := 0; part*job.MaxBulk < len(lines); part++ {
		chunk := lines[part*job.MaxBulk : min((part+1)*job.MaxBulk, len(lines))]
		results, err := s.createChunk(ctx, in.part(part, request), chunk)
		if errors.Is(err, job.ErrKeyUsed) {
			return nil, s.refused(ctx, err, nil)
		}
		if err != nil {
			failure = s.asProblem(ctx, err)
			results = failed(chunk, failure)
		}
		reached = reached || err == nil
		out.Body.Items = append(out.Body.Items, results...)
	}
	if !reached {
		return nil, failure
	}
	for _, r := range out.Body.Items {
		if r.Problem == nil {
			out.Body.Created++
		} else {
			out.Body.Refused++
		}
	}
	return out, nil
}

// part is what keeps a transaction of a bulk from being carried out twice; nil
// without a key.
func (i *Idempotency) part(part int, request [32]byte) *job.IdempotentRequest {
	if i.IdempotencyKey == "" {
		return nil
	}
	return &job.IdempotentRequest{Key: i.IdempotencyKey, Part: int16(part), Request: request}
}

// line of a bulk.
type line struct {
	number int
	text   []byte
}

func splitLines(body []byte) (out []line, err error) {
	number := 0
	for text := range bytes.Lines(body) {
		number++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			out = append(out, line{number, text})
		}
	}
	switch {
	case len(out) == 0:
		return nil, newProblem("invalid", "the body is empty; send a job on each line")
	case len(out) > maxBulkLines:
		return nil, newProblem("too_large", fmt.Sprintf("%d lines; send at most %d in one request", len(out), maxBulkLines))
	}
	return out, nil
}

// createChunk makes the jobs of some lines, in one transaction.
func (s *Server) createChunk(ctx context.Context, once *job.IdempotentRequest, chunk []line) ([]BulkResult, error) {
	p := principal(ctx)
	results := make([]BulkResult, len(chunk))
	o := job.BulkParams{Namespace: p.Namespace, Actor: p.Actor(), Idempotent: once}
	var at []int // the result of each definition
	for i, l := range chunk {
		results[i].Line = l.number
		d, err := s.lineDefinition(l.text)
		if err != nil {
			results[i].Problem = s.asProblem(ctx, err)
			continue
		}
		o.Jobs, at = append(o.Jobs, job.NewJob{Definition: d}), append(at, i)
	}
	fill := func(made []job.Made) []BulkResult {
		for i, m := range made {
			r := &results[at[i]]
			if r.ID, r.Problem = "", nil; m.Err != nil {
				r.Problem = s.asProblem(ctx, m.Err)
			} else {
				r.ID = job.FormatJobID(m.Job.ID)
			}
		}
		return results
	}
	if once != nil {
		once.Encode = func(made any) ([]byte, error) { return json.Marshal(fill(made.([]job.Made))) }
	}
	if len(o.Jobs) == 0 && once == nil {
		return results, nil
	}
	made, err := s.opts.Verbs.CreateJobs(ctx, o)
	if err != nil {
		before, err := recalled[[]BulkResult](once, err)
		if err != nil {
			return nil, err
		}
		return *before, nil
	}
	return fill(made), nil
}

// lineDefinition reads a line as create-job reads its body. What is valid as far
// as can be told here is checked by the store, which has to anyway.
func (s *Server) lineDefinition(text []byte) (job.Definition, error) {
	var in JobInput
	if err := strictly(text, &in); err != nil {
		return job.Definition{}, err
	}
	d, err := s.outside(&in)
	if err != nil {
		return s.checked(&in)
	}
	return d, nil
}

// strictly reads JSON without unknown fields. Its errors do not repeat values,
// which may be secrets.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return newProblem("bad_request", "there is something behind the end of the object")
		}
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &job.Problem{Field: wrong.Field, Problem: "it is a " + strings.Fields(wrong.Value)[0] + ", which it may not be", Fix: "write it as in the reference"}
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownField(strings.Trim(field, `"`))
	}
	if wrong, ok := errors.AsType[*schedule.Error](err); ok {
		return job.ScheduleProblem(wrong)
	}
	return newProblem("bad_request", "it is not the JSON of a job")
}

// asProblem is the problem of an error.
func (s *Server) asProblem(ctx context.Context, err error) *Problem {
	p, ok := errors.AsType[*Problem](s.problem(ctx, err))
	if !ok {
		return newProblem("internal", "see the node's log")
	}
	return p
}

// failed is the answer for lines whose transaction failed.
func failed(chunk []line, p *Problem) []BulkResult {
	out := make([]BulkResult, len(chunk))
	for i, l := range chunk {
		out[i] = BulkResult{Line: l.number, Problem: p}
	}
	return out
}
