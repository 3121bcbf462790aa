package jobs

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// huma reads the body of most operations. Patches and bulks are read here, by the same rules.

// decodeStrictly reads the JSON of a job and rejects unknown fields. Its errors do not repeat values,
// which may be secrets.
func decodeStrictly(text []byte, into any) error {
	err := body.UnmarshalStrictly(text, into)
	switch {
	case err == nil, len(problem.All(err)) > 0, errors.Is(err, body.ErrTrailing), errors.Is(err, body.ErrDepth),
		errors.Is(err, body.ErrValues):
		return err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &problem.Problem{
			Field: wrong.Field, Problem: "it is a " + strings.Fields(wrong.Value)[0] + ", which it may not be",
			Fix: "write it as in the reference",
		}
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownField(strings.Trim(field, `"`))
	}
	if wrong, ok := errors.AsType[*schedule.Error](err); ok {
		return job.ScheduleProblem(wrong)
	}
	return rest.NewProblem("bad_request", "it is not the JSON of a job")
}

// unknownField reports a name that no part of a job has, with the nearest name that exists.
func unknownField(name string) *problem.Problem {
	var names []string
	r := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	r.Schema(reflect.TypeFor[JobInput](), true, "")
	for _, s := range r.Map() {
		names = append(names, slices.Collect(maps.Keys(s.Properties))...)
	}
	slices.Sort(names)
	fix := "check its spelling"
	if near := config.Nearest(name, slices.Compact(names)); near != "" {
		fix = "did you mean " + near + "?"
	}
	return &problem.Problem{Field: rest.Printable(name), Problem: "there is no such field", Fix: fix}
}
