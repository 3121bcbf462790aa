package rest

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Validator returns a check of JSON that huma does not check, such as one line of several, by the schema of a type and
// with the same words. It reports nothing about text that is not JSON. Call it while operations are registered.
func Validator[T any](a *API) func(text []byte) error {
	schemas := a.huma.OpenAPI().Components.Schemas
	schema := schemas.Schema(reflect.TypeFor[T](), true, "")
	v := validator{api: a, body: schema}
	return func(text []byte) error {
		if !json.Valid(text) {
			return nil
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return err
		}
		found := &huma.ValidateResult{}
		path := huma.NewPathBuffer(nil, 0)
		path.Push("body")
		huma.Validate(schemas, schema, path, huma.ModeWriteToServer, value, found)
		var bad []FieldProblem
		for _, err := range found.Errors {
			var d huma.ErrorDetailer
			if errors.As(err, &d) {
				bad = append(bad, v.explain(d.ErrorDetail())...)
			}
		}
		if bad == nil {
			return nil
		}
		return listProblems(bad)
	}
}
