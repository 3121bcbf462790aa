package server

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/job"
)

// huma says what it expected. Here it becomes what is wrong and what to do, in the
// words of all other problems, and without the values that were sent.

// schemasKey is where a request has the schemas of the API, for suggestions.
type schemasKey struct{}

// wrongs are messages that stand for themselves.
var wrongs = map[string]FieldProblem{
	validation.MsgExpectedString:          {Problem: "it is not a text", Fix: `write it in "quotes"`},
	validation.MsgExpectedInteger:         {Problem: "it is not a whole number"},
	validation.MsgExpectedNumber:          {Problem: "it is not a number"},
	validation.MsgExpectedBoolean:         {Problem: "it is not true or false"},
	validation.MsgExpectedObject:          {Problem: "it is not an object", Fix: "write it as {…}"},
	validation.MsgExpectedArray:           {Problem: "it is not a list", Fix: "write it as […]"},
	"invalid integer":                     {Problem: "it is not a whole number"},
	"invalid boolean":                     {Problem: "it is not true or false"},
	validation.MsgExpectedRFC3339DateTime: aTime,
	"unexpected end of JSON input":        {Problem: "it is not JSON: it ends too early", Fix: "is it cut off, or is a bracket missing?"},
}

var aTime = FieldProblem{Problem: "it is not a time", Fix: "write it as 2027-01-31T09:00:00Z, or with an offset"}

// beginnings are those that end with a number or a text; %s is where it goes.
var beginnings = []struct{ begins, problem, fix string }{
	{"expected number >= ", "it is less than %s", "use %s or more"},
	{"expected number <= ", "it is more than %s", "use %s or less"},
	{"expected length >= 1", "it is empty", ""},
	{"expected length >= ", "it has less than %s characters", ""},
	{"expected length <= ", "it has more than %s characters", "shorten it"},
	{"expected array length <= ", "it has more than %s items", "send fewer"},
	{"expected value to be one of ", "it is none of the values that it may have", "use one of %s"},
	{"expected string to match pattern ", "it is not of the form %s", ""},
	{"expected string to be ", "it is not %s", ""},
	{"invalid date/time for format ", aTime.Problem, aTime.Fix},
	{"invalid character ", "it is not JSON: there is %s", "is a quote, a comma or a bracket missing, or one too many?"},
}

// wrong is what a message of huma means. root is the schema of the body.
func wrong(d *huma.ErrorDetail, root *huma.Schema, all huma.Registry) []FieldProblem {
	field := d.Location
	for _, in := range []string{"body.", "query.", "header.", "path."} {
		field = strings.TrimPrefix(field, in)
	}
	p, ok := wrongs[d.Message]
	p.Field = field
	if ok {
		return []FieldProblem{p}
	}
	switch {
	case d.Message == validation.MsgUnexpectedProperty:
		p.Problem, p.Fix = "there is no such field", suggest(last(field), fieldsAt(field, root, all))
		return []FieldProblem{p}
	case d.Message == validation.MsgExpectedMatchExactlyOneSchema && last(field) == "schedule":
		return wrongSchedule(field, d.Value)
	}
	if name, ok := strings.CutPrefix(d.Message, "expected required property "); ok {
		name, _, _ = strings.Cut(name, " ")
		p.Field, p.Problem = strings.TrimPrefix(field+"."+name, "body."), "it is missing"
		return []FieldProblem{p}
	}
	for _, b := range beginnings {
		if rest, ok := strings.CutPrefix(d.Message, b.begins); ok {
			fill := func(s string) string { return strings.ReplaceAll(s, "%s", strings.Trim(rest, `"`)) }
			p.Problem, p.Fix = fill(b.problem), fill(b.fix)
			return []FieldProblem{p}
		}
	}
	p.Problem = d.Message
	return []FieldProblem{p}
}

// last is the last part of a path.
func last(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// fieldsAt lists the fields of the object that a field is in.
func fieldsAt(field string, s *huma.Schema, all huma.Registry) []string {
	resolve := func() {
		for s != nil && s.Ref != "" && all != nil {
			s = all.SchemaFromRef(s.Ref)
		}
	}
	parts := strings.Split(field, ".")
	for _, part := range parts[:len(parts)-1] {
		if resolve(); s == nil {
			return nil
		}
		s = s.Properties[part]
	}
	if resolve(); s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// wrongSchedule tells what is wrong with a schedule that is neither a text nor an
// object as described.
func wrongSchedule(field string, value any) (out []FieldProblem) {
	written, ok := value.(map[string]any)
	if !ok {
		return []FieldProblem{{Field: field, Problem: "it is neither a text nor an object", Fix: `write it as "0 9 * * 1-5" or as {"cron":"0 9 * * 1-5","timezone":"Europe/Berlin"}`}}
	}
	known := scheduleSpec().Properties
	for _, name := range slices.Sorted(maps.Keys(written)) {
		at := field + "." + printable(name)
		schema, ok := known[name]
		if !ok {
			out = append(out, FieldProblem{Field: at, Problem: "there is no such field", Fix: suggest(name, slices.Sorted(maps.Keys(known)))})
			continue
		}
		if _, isText := written[name].(string); schema.Type == huma.TypeString && !isText {
			out = append(out, FieldProblem{Field: at, Problem: "it is not a text", Fix: `write it in "quotes"`})
		}
	}
	if len(out) == 0 {
		out = append(out, FieldProblem{Field: field, Problem: "a part of it is not as described", Fix: "compare it with the reference, /docs"})
	}
	return out
}

// tooLarge says how large the body of an operation may be, and what to do with a larger one.
func tooLarge(ctx huma.Context) string {
	if ctx == nil {
		return "the body is too large"
	}
	o := ctx.Operation()
	limit := fmt.Sprintf("the body is larger than %d kB", o.MaxBodyBytes>>10)
	if o.MaxBodyBytes >= 1<<20 {
		limit = fmt.Sprintf("the body is larger than %d MB", o.MaxBodyBytes>>20)
	}
	switch {
	case strings.HasSuffix(o.Path, bulkPath):
		return limit + "; send the jobs in several requests"
	case roleOf(o) == access.Worker:
		return limit + "; name fewer runs in one request, or shorten what is said of each"
	case roleOf(o) == byToken:
		return limit + "; shorten the message"
	default:
		return limit + "; a payload may have 256 kB, and many jobs go through POST /api/v1" + bulkPath
	}
}

// wholeBody are the messages of huma about a body as a whole.
func wholeBody(ctx huma.Context, status int, message string) *Problem {
	switch {
	case message == "request body is required":
		return newProblem("bad_request", "the body is missing; send a JSON object")
	case strings.HasPrefix(message, "request body is too large"):
		return newProblem("too_large", tooLarge(ctx))
	case message == "cannot read request body":
		return newProblem("bad_request", "the body broke off before its end")
	}
	code := codeOf(status)
	p := newProblem(code, message)
	p.Status = max(status, p.Status)
	if message == "validation failed" {
		p.Detail = listed
	}
	return p
}

// unknownField is what to do about a name that no part of a job has.
func unknownField(name string) *job.Problem {
	var names []string
	r := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	r.Schema(reflect.TypeFor[JobInput](), true, "")
	for _, s := range r.Map() {
		names = append(names, slices.Collect(maps.Keys(s.Properties))...)
	}
	slices.Sort(names)
	fix := "check its spelling"
	if near := config.Nearest(name, slices.Compact(names)); near != "" {
		fix = "did you mean " + near + "?"
	}
	return &job.Problem{Field: printable(name), Problem: "there is no such field", Fix: fix}
}
