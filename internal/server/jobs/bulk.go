package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// The limits of a bulk.
const (
	maxBulkLines = 5000
	maxBulkBody  = 16 << 20
	maxListed    = 1000 // problems in the answer, besides the first one of each line
)

const aboutBulk = "The body is NDJSON: on each line a job as in create-job, at most %d lines and %d MB.\n\n" +
	"Lines are independent: the response has, in the order of the lines, the id of the job that was created, " +
	"or the problem that prevented it; the status is 200 even if no line was valid. " +
	"Jobs are created in transactions of %d lines: after an interruption, those of committed transactions exist. " +
	"With an Idempotency-Key the same request can be repeated, and creates or replaces the missing ones; jobs that " +
	"were changed after the first request are not replaced. With existing=replace, a line may have the field " +
	"version, as in the answer of diff-jobs: the job is replaced only if it still has this version.\n\n" +
	"A node processes few bulk requests at the same time, and fewer of one key: after 429 or 503, retry later."

func (h *Handlers) registerBulk() {
	rest.Register(h.api, rest.Operation{
		ID: "create-jobs", Route: "POST /jobs:bulk", Summary: "Create or replace many jobs",
		Description: fmt.Sprintf(aboutBulk, maxBulkLines, maxBulkBody>>20, job.MaxBulk), Role: access.Editor,
		MaxBody: maxBulkBody, TooLarge: "send the jobs in several requests", BodyTimeout: rest.ReadTimeout,
		Enter: h.bulks.Enter, Describe: describeBulk,
	}, h.createJobs)
}

// describeBulk describes the body, which huma knows only as bytes.
func describeBulk(_ *huma.OpenAPI, o *huma.Operation) {
	o.RequestBody.Content["application/x-ndjson"] = &huma.MediaType{
		Schema: &huma.Schema{Type: huma.TypeString, MinLength: ptr(1), Description: "A job on each line."},
		Example: `{"name":"first","schedule":"0 9 * * 1-5","target":{"kind":"noop"}}` + "\n" +
			`{"name":"second","schedule":"every 15m","target":{"kind":"noop"}}` + "\n",
	}
}

type createJobsInput struct {
	rest.Idempotency
	Existing string `query:"existing" enum:"refuse,replace" default:"refuse" doc:"What to do with a job whose name is in use."`
	RawBody  []byte `contentType:"application/x-ndjson"`
}

// BulkResult is the result of a bulk.
type BulkResult struct {
	Created   int        `json:"created" doc:"Number of jobs created."`
	Changed   int        `json:"changed" doc:"Number of jobs replaced, with existing=replace."`
	Unchanged int        `json:"unchanged" doc:"Number of jobs that already were as their line says, with existing=replace."`
	Refused   int        `json:"refused" doc:"Number of jobs rejected."`
	Items     []BulkItem `json:"items" doc:"One per line that is not empty."`
}

type createJobsOutput struct {
	Body BulkResult
}

// BulkItem is the result of one line.
type BulkItem struct {
	Line    int           `json:"line" doc:"Line number, from 1."`
	ID      string        `json:"id,omitempty" doc:"Id of the job."`
	Result  string        `json:"result" enum:"created,changed,unchanged,refused"`
	Problem *rest.Problem `json:"problem,omitempty" doc:"Why no job was saved."`

	Warnings []Warning `json:"warnings,omitempty" doc:"What may not be as meant."`
}

// createJobs creates the jobs in chunks, each in a transaction of its own. If a chunk fails, the others
// still count; only if all fail, the whole request fails.
func (h *Handlers) createJobs(ctx context.Context, in *createJobsInput) (*createJobsOutput, error) {
	lines, err := splitLines(in.RawBody)
	if err != nil {
		return nil, err
	}
	var request [32]byte
	if in.IdempotencyKey != "" {
		request = sha256.Sum256(append([]byte("create-jobs "+in.Existing+"\n"), in.RawBody...))
	}
	out := &createJobsOutput{}
	var failure *rest.Problem
	written := false
	part := int16(0)
	b := bulk{maxListed, map[string]bool{}, in.Existing == "replace"}
	for chunk := range slices.Chunk(lines, job.MaxBulk) {
		once := bulkPart(string(in.IdempotencyKey), part, request)
		results, err := h.saveChunk(ctx, once, chunk, &b)
		if errors.Is(err, job.ErrKeyUsed) {
			return nil, err
		}
		if err != nil {
			failure = h.api.Problem(ctx, err)
			results = failedChunk(chunk, failure)
		}
		written = written || err == nil
		out.Body.Items = append(out.Body.Items, results...)
		part++
	}
	if !written {
		return nil, failure
	}
	for i := range out.Body.Items {
		out.Body.count(&out.Body.Items[i])
	}
	return out, nil
}

func (r *BulkResult) count(item *BulkItem) {
	if item.Problem != nil {
		item.Result = "refused"
	}
	switch item.Result {
	case "created":
		r.Created++
	case "changed":
		r.Changed++
	case "unchanged":
		r.Unchanged++
	default:
		r.Refused++
	}
}

// bulkPart returns what the store needs to carry out one transaction of a bulk once; nil without a key.
func bulkPart(key string, part int16, request [32]byte) *job.IdempotentRequest {
	if key == "" {
		return nil
	}
	return &job.IdempotentRequest{Key: key, Part: part, Request: request}
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
			if len(out) == maxBulkLines {
				return nil, rest.NewProblem("too_large",
					fmt.Sprintf("more than %d lines; send the jobs in several requests", maxBulkLines))
			}
			out = append(out, line{number, text})
		}
	}
	if len(out) == 0 {
		return nil, rest.NewProblem("invalid", "the body is empty; send a job on each line")
	}
	return out, nil
}

// bulk is what the chunks of a bulk share.
type bulk struct {
	listed  int             // how many problems may still be listed
	names   map[string]bool // of earlier lines
	replace bool
}

// saveChunk creates the jobs of some lines in one transaction, and then replaces those that exist, if that is wanted.
func (h *Handlers) saveChunk(
	ctx context.Context, once *job.IdempotentRequest, chunk []line, b *bulk,
) ([]BulkItem, error) {
	p := rest.Principal(ctx)
	results := make([]BulkItem, len(chunk))
	params := job.BulkParams{Namespace: p.Namespace, Actor: p.Actor(), Idempotent: once, Replace: b.replace}
	check := h.targetCheck(ctx)
	var resultOf []int // index into results, for each job in params
	for i, l := range chunk {
		results[i].Line = l.number
		d, err := lineDefinition(l.text, check, b.replace)
		if name := d.Definition.Name; err == nil && b.names[name] {
			err = fmt.Errorf("%w: %q is also the name of another job of this request", job.ErrConflict, name)
		}
		if err != nil {
			results[i].Problem = h.api.Problem(ctx, err).Within(&b.listed)
			continue
		}
		b.names[d.Definition.Name] = true
		params.Jobs, resultOf = append(params.Jobs, d), append(resultOf, i)
	}
	fill := func(made []job.BulkResult) []BulkItem {
		for i, m := range made {
			r := &results[resultOf[i]]
			if r.ID, r.Problem = "", nil; m.Err != nil {
				r.Problem = h.api.Problem(ctx, m.Err)
			} else {
				r.ID, r.Warnings = job.FormatJobID(m.Job.ID), append(pastWarnings(&m.Job), h.clearWarnings(&m.Job)...)
				r.Result = bulkResult(&m)
			}
		}
		return results
	}
	if once != nil {
		once.Encode = func(made any) ([]byte, error) { return json.Marshal(fill(made.([]job.BulkResult))) }
	}
	if len(params.Jobs) == 0 && once == nil {
		return results, nil
	}
	made, err := h.verbs.CreateJobs(ctx, params)
	if err != nil {
		before, err := rest.Recalled[[]BulkItem](once, err)
		if err != nil {
			return nil, err
		}
		return *before, nil
	}
	return fill(made), nil
}

func bulkResult(r *job.BulkResult) string {
	switch {
	case r.Exists == uuid.Nil:
		return "created"
	case r.Same:
		return "unchanged"
	default:
		return "changed"
	}
}

// lineDefinition reads a line as create-job reads its body. The store validates definitions anyway, so
// lineDefinition does it only to report all problems of a line that is wrong already.
func lineDefinition(text []byte, check TargetCheck, replace bool) (out job.NewJob, err error) {
	var in struct {
		JobInput
		Version int32 `json:"version"`
	}
	into := any(&in)
	if !replace {
		into = &in.JobInput
	}
	if err := decodeStrictly(text, into); err != nil {
		return out, err
	}
	out.IfVersion = in.Version
	if out.Definition, err = in.checkedOutside(check); err != nil {
		out.Definition, err = in.checked(check)
	}
	return out, err
}

// failedChunk returns the results of lines whose transaction failed.
func failedChunk(chunk []line, p *rest.Problem) []BulkItem {
	return rest.Map(chunk, func(l line) BulkItem { return BulkItem{Line: l.number, Problem: p} })
}
