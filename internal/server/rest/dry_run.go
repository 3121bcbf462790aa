package rest

import (
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// DryRun describes an operation whose body is a Done, or with dry_run a Counted and the status 200. Its output has the
// fields Status int and Body any.
func DryRun[Done, Counted any]() func(*huma.OpenAPI, *huma.Operation) {
	return func(api *huma.OpenAPI, o *huma.Operation) {
		schemas := api.Components.Schemas
		body := func(of reflect.Type) map[string]*huma.MediaType {
			return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(of, true, "")}}
		}
		o.Responses[strconv.Itoa(o.DefaultStatus)].Content = body(reflect.TypeFor[Done]())
		o.Responses["200"] = &huma.Response{
			Description: "With dry_run: what it would cover.", Content: body(reflect.TypeFor[Counted]()),
		}
	}
}
