package rest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/belfry-dev/belfry/internal/config"
)

// huma reports what it expected. This file turns that into what is wrong and how to fix it, in the
// words of all other problems and without the values that were sent, which may be secrets.

// apiKey is where the context of a request has its API.
type apiKey struct{}

// fromHuma maps an error of huma to a problem.
func fromHuma(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	p := wholeBody(status, message)
	v := validator{}
	if ctx != nil {
		v.api, _ = ctx.Context().Value(apiKey{}).(*API)
		if bad := recordOf(ctx.Context()).bad; bad != nil {
			p = bad // and the problems of parameters
		}
	}
	var found []FieldProblem
	for _, err := range errs {
		if found, ok := errors.AsType[*Problem](err); ok {
			return found
		}
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			found = append(found, v.explain(d.ErrorDetail())...)
		}
	}
	p.list(found, 0)
	if p.Code == "internal" {
		p.Detail, p.Problems = seeLog, nil // the client does not see the text of internal errors
	}
	return p
}

// explained has the messages of huma that need no further detail.
var explained = map[string]FieldProblem{
	validation.MsgExpectedString:          {Problem: "it is not a string", Fix: `write it in "quotes", a duration with its unit: "30s"`},
	validation.MsgExpectedInteger:         {Problem: "it is not a whole number", Fix: wholeNumber},
	validation.MsgExpectedNumber:          {Problem: "it is not a number", Fix: "write it as 0.5, without quotes"},
	validation.MsgExpectedBoolean:         {Problem: "it is not true or false", Fix: "write true or false, without quotes"},
	validation.MsgExpectedObject:          {Problem: "it is not an object", Fix: "write it as {…}"},
	validation.MsgExpectedArray:           {Problem: "it is not a list", Fix: "write it as […]"},
	"invalid integer":                     {Problem: "it is not a whole number", Fix: wholeNumber},
	"invalid boolean":                     {Problem: "it is not true or false", Fix: "write true or false, without quotes"},
	validation.MsgExpectedRFC3339DateTime: notATime,
	"unexpected end of JSON input": {
		Problem: "it is not JSON: it ends too early", Fix: "is it cut off, or is a bracket missing?",
	},
}

const wholeNumber = "write it as 5, without quotes and fraction"

var notATime = FieldProblem{Problem: "it is not a time", Fix: "write it as 2027-01-31T09:00:00Z, or with an offset"}

// explainedPrefixes has the messages of huma that end with a number or a string. %s stands for it.
var explainedPrefixes = []struct{ prefix, problem, fix string }{
	{"expected number >= ", "it is less than %s", "use %s or more"},
	{"expected number <= ", "it is more than %s", "use %s or less"},
	{"expected length >= 1", "it is empty", "give it a value"},
	{"expected length >= ", "it has less than %s characters", ""},
	{"expected length <= ", "it has more than %s characters", "shorten it"},
	{"expected array length <= ", "it has more than %s items", "send fewer"},
	{"expected value to be one of ", "it is none of the values that it may have", "use one of %s"},
	{"expected string to match pattern ", "it is not of the form %s", ""},
	{"expected string to be ", "it is not %s", ""},
	{"invalid date/time for format ", notATime.Problem, notATime.Fix},
	{
		"invalid character ", "it is not JSON: there is %s",
		"is a quote, a comma or a bracket missing, or one too many?",
	},
}

// validator explains what huma found wrong with one request.
type validator struct {
	api  *API         // nil if the request did not get that far
	body *huma.Schema // of the operation; nil without a body
}

func (v validator) explain(d *huma.ErrorDetail) []FieldProblem {
	field := d.Location
	for _, in := range []string{"body.", "query.", "header.", "path."} {
		field = strings.TrimPrefix(field, in)
	}
	p, ok := explained[d.Message]
	p.Field = field
	if ok {
		return []FieldProblem{p}
	}
	switch d.Message {
	case validation.MsgUnexpectedProperty:
		p.Problem, p.Fix = "there is no such field", Suggest(lastPart(field), v.siblings(field))
		return []FieldProblem{p}
	case validation.MsgExpectedMatchExactlyOneSchema:
		if v.api == nil {
			break
		}
		if found := v.api.opts.ExplainChoice(field, d.Value); len(found) > 0 {
			return found
		}
	}
	if name, ok := strings.CutPrefix(d.Message, "expected required property "); ok {
		name, _, _ = strings.Cut(name, " ")
		p.Field, p.Problem, p.Fix = strings.TrimPrefix(field+"."+name, "body."), "it is missing", "add it; it has no default"
		return []FieldProblem{p}
	}
	p.Problem = d.Message
	for _, e := range explainedPrefixes {
		if value, ok := strings.CutPrefix(d.Message, e.prefix); ok {
			fill := func(s string) string { return strings.ReplaceAll(s, "%s", strings.Trim(value, `"`)) }
			p.Problem, p.Fix = fill(e.problem), fill(e.fix)
			break
		}
	}
	return []FieldProblem{p}
}

// lastPart returns the last part of a path such as schedule.cron.
func lastPart(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// siblings lists the fields of the object that a field is in.
func (v validator) siblings(field string) []string {
	s := v.resolve(v.body)
	parts := strings.Split(field, ".")
	for _, part := range parts[:len(parts)-1] {
		if s == nil {
			return nil
		}
		s = v.resolve(s.Properties[part])
	}
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// resolve returns the schema that a reference stands for.
func (v validator) resolve(s *huma.Schema) *huma.Schema {
	for s != nil && s.Ref != "" && v.api != nil {
		s = v.api.huma.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// Suggest says what to do about a name that is not one of the known names.
func Suggest(name string, known []string) string {
	switch near := config.Nearest(name, known); {
	case near != "":
		return "did you mean " + near + "?"
	case len(known) == 0:
		return "leave it out; there are none here"
	default:
		slices.Sort(known)
		return "leave it out, or use one of " + strings.Join(known, ", ")
	}
}

// wholeBody maps the messages of huma that are about a body as a whole.
func wholeBody(status int, message string) *Problem {
	if message == "request body is required" {
		return NewProblem("bad_request", "the body is missing; send a JSON object")
	}
	p := NewProblem(codeOf(status), message)
	p.Status = max(status, p.Status)
	if message == "validation failed" {
		p.Detail = seeProblems
	}
	return p
}

// tooLarge says how large the body of an operation may be, and what to do about a larger one.
func tooLarge(o *Operation) string {
	limit := fmt.Sprintf("%d kB", o.MaxBody>>10)
	if o.MaxBody >= 1<<20 {
		limit = fmt.Sprintf("%d MB", o.MaxBody>>20)
	}
	return "the body is larger than " + limit + "; " + o.TooLarge
}
