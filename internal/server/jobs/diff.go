package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *Handlers) registerDiff() {
	rest.Register(h.api, rest.Operation{
		ID: "diff-jobs", Route: "POST /jobs:diff", Summary: "Compare jobs with those that exist",
		Description: fmt.Sprintf("The body is NDJSON: on each line a job as in create-job, at most %d lines and %d MB. "+
			"Each is compared with the job of that name: what would saving it change? Nothing is saved.\n\n"+
			"Fields that have their default are equal to fields that are left out. Lines are independent: the status "+
			"is 200 even if no line is valid.\n\n"+
			"The fields of all lines together have at most %d MB. Values that do not fit are left out, and the field says so.",
			maxBulkLines, maxBulkBody>>20, maxDiffValues>>20),
		Role: access.Viewer, MaxBody: maxBulkBody, TooLarge: "send the jobs in several requests",
		BodyTimeout: rest.ReadTimeout, Enter: h.bulks.Enter, Describe: describeBulk,
	}, h.diffJobs)
}

type diffJobsInput struct {
	RawBody []byte `contentType:"application/x-ndjson"`
}

// DiffResult says what saving jobs would change.
type DiffResult struct {
	Created   int       `json:"created" doc:"Number of jobs that do not exist."`
	Changed   int       `json:"changed" doc:"Number of jobs that would change."`
	Unchanged int       `json:"unchanged" doc:"Number of jobs that are the same."`
	Refused   int       `json:"refused" doc:"Number of lines that are not valid."`
	Items     []JobDiff `json:"items" doc:"One per line that is not empty."`
}

// JobDiff says what saving the job of one line would change.
type JobDiff struct {
	Line    int         `json:"line" doc:"Line number, from 1."`
	Name    string      `json:"name,omitempty"`
	Result  string      `json:"result" enum:"create,change,same,refused"`
	ID      string      `json:"id,omitempty" doc:"Id of the job that exists."`
	Version int32       `json:"version,omitempty" doc:"Version of the job that exists, for If-Match."`
	Fields  []FieldDiff `json:"fields,omitempty" doc:"Fields that differ from the job that exists."`
	More    int         `json:"more_fields,omitempty" doc:"Further fields that differ. They do not fit into the answer."`

	Problems []rest.FieldProblem `json:"problems,omitempty" doc:"Why the line is refused."`

	Before *int64 `json:"occurrences_before,omitempty" doc:"Occurrences in the next 24 hours now."`
	After  *int64 `json:"occurrences_after,omitempty" doc:"Occurrences in the next 24 hours if it were saved."`
}

// Descriptions implements rest.Described.
func (JobDiff) Descriptions() map[string]string {
	return map[string]string{
		"occurrences_before": "Occurrences of the schedule in the next 24 hours as the job is now. Absent: not counted, " +
			"because the lines have too many in all.",
		"occurrences_after": "The same if the job were saved.",
	}
}

// FieldDiff is a field that differs.
type FieldDiff struct {
	Field  string    `json:"field" doc:"Path of the field." example:"retry.max_attempts"`
	Before rest.JSON `json:"before,omitempty" doc:"Absent: the job has no such field, or omitted."`
	After  rest.JSON `json:"after,omitempty" doc:"Absent: the field would be removed, or omitted."`

	Omitted bool `json:"omitted,omitempty" doc:"The values do not fit into the answer."`
}

type diffJobsOutput struct {
	Body DiffResult
}

// The bounds of a comparison. A short line may name a job with a large payload.
const (
	diffPage      = 100     // jobs that are read at once
	maxDiffValues = 8 << 20 // bytes of fields in the answer
	perField      = 64      // bytes that a field takes besides its path and values
)

func (h *Handlers) diffJobs(ctx context.Context, in *diffJobsInput) (*diffJobsOutput, error) {
	lines, err := splitLines(in.RawBody)
	if err != nil {
		return nil, err
	}
	now, err := h.views.Now(ctx, rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	d := differ{
		h: h, check: h.targetCheck(ctx), from: now, budget: job.LoadBudget, values: maxDiffValues, listed: maxListed,
		lineOf: map[string]int{},
	}
	for page := range slices.Chunk(lines, diffPage) {
		if err := d.page(ctx, page); err != nil {
			return nil, err
		}
	}
	return &diffJobsOutput{d.out}, nil
}

// differ compares the lines of one request.
type differ struct {
	h      *Handlers
	check  TargetCheck
	from   time.Time
	budget int            // occurrences that may still be counted
	values int            // bytes of fields that may still be returned
	listed int            // problems that may still be listed
	lineOf map[string]int // line by name
	out    DiffResult
}

// page compares some lines.
func (d *differ) page(ctx context.Context, page []line) error {
	items := make([]JobDiff, len(page))
	definitions := make([]job.Definition, len(page))
	var names []string
	for i, l := range page {
		items[i].Line = l.number
		var err error
		if definitions[i], err = d.read(l); err != nil {
			items[i].Name = nameIn(l.text)
			items[i].Result, items[i].Problems = "refused", d.problems(ctx, err)
			continue
		}
		items[i].Name = definitions[i].Name
		names = append(names, items[i].Name)
	}
	existing, err := d.h.verbs.JobsByName(ctx, rest.Principal(ctx).Namespace, names)
	if err != nil {
		return err
	}
	for i := range items {
		if items[i].Result == "" {
			if err := d.compare(&items[i], definitions[i], existing); err != nil {
				return err
			}
		}
		d.count(items[i].Result)
	}
	d.out.Items = append(d.out.Items, items...)
	return nil
}

// read reads a line and reports everything that is wrong with it.
func (d *differ) read(l line) (job.Definition, error) {
	var in JobInput
	if err := d.h.validate(l.text, 1+d.listed); err != nil {
		return job.Definition{}, err
	}
	if err := decodeStrictly(l.text, &in); err != nil {
		return job.Definition{}, err
	}
	definition, err := in.checked(d.check)
	if err != nil {
		return definition, err
	}
	if first, again := d.lineOf[definition.Name]; again {
		return definition, problem.New("name", fmt.Sprintf("line %d has the same name", first), "use each name once")
	}
	d.lineOf[definition.Name] = l.number
	return definition, nil
}

// problems returns what is wrong with a line, by field. The last one counts those that are not listed.
func (d *differ) problems(ctx context.Context, err error) []rest.FieldProblem {
	p := d.h.api.Problem(ctx, err).Within(&d.listed)
	if len(p.Problems) == 0 || p.More() > 0 {
		return append(p.Problems, rest.FieldProblem{Problem: p.Detail})
	}
	return p.Problems
}

// nameIn returns the name in a line that is not valid, if it has one.
func nameIn(text []byte) string {
	var named struct {
		Name string `json:"name"`
	}
	if body.Unmarshal(text, &named) != nil {
		return ""
	}
	return rest.Printable(named.Name)
}

func (d *differ) count(result string) {
	switch result {
	case "create":
		d.out.Created++
	case "change":
		d.out.Changed++
	case "same":
		d.out.Unchanged++
	default:
		d.out.Refused++
	}
}

// compare compares a definition with the job of its name.
func (d *differ) compare(item *JobDiff, wanted job.Definition, existing map[string]job.Job) error {
	now, exists := existing[wanted.Name]
	if !exists {
		item.Result, item.Before = "create", ptr(int64(0))
		item.After = d.occurrences(wanted.Schedule, "")
		return nil
	}
	item.Result, item.ID, item.Version = "same", job.FormatJobID(now.ID), now.Version
	changes, err := job.Changes(now.Definition, wanted)
	if err != nil {
		return err
	}
	for _, c := range changes {
		item.Result = "change"
		if err := d.add(item, c); err != nil {
			return err
		}
	}
	item.Before = d.occurrences(now.Schedule, now.ID.String())
	item.After = item.Before
	if item.Result == "change" {
		item.After = d.occurrences(wanted.Schedule, now.ID.String())
	}
	return nil
}

// add adds a field to an item: with its values, without them, or only its number, as far as the answer has space.
func (d *differ) add(item *JobDiff, c job.FieldChange) error {
	bare := perField + len(c.Field)
	if d.values < bare {
		item.More++
		return nil
	}
	f, err := wireChange(c)
	if err != nil {
		return err
	}
	if size := len(f.Before) + len(f.After); d.values < bare+size {
		f = FieldDiff{Field: c.Field, Omitted: true}
	} else {
		d.values -= size
	}
	d.values -= bare
	item.Fields = append(item.Fields, f)
	return nil
}

func wireChange(c job.FieldChange) (out FieldDiff, err error) {
	out.Field = c.Field
	encode := func(v any) (rest.JSON, error) {
		if v == nil {
			return nil, nil
		}
		text, err := json.Marshal(v)
		return rest.JSON(text), err
	}
	var errBefore error
	out.Before, errBefore = encode(c.Before)
	out.After, err = encode(c.After)
	return out, errors.Join(errBefore, err)
}

// occurrences counts what fires in the next 24 hours; nil: there are too many, or the schedule cannot be read.
func (d *differ) occurrences(spec schedule.Spec, spread string) *int64 {
	s, err := schedule.New(spec, spread)
	if err != nil {
		return nil
	}
	n := int64(0)
	for o := range s.All(d.from, d.from.Add(24*time.Hour)) {
		if d.budget--; d.budget < 0 {
			return nil
		}
		if o.Skip == "" {
			n++
		}
	}
	return &n
}
