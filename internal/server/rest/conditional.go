package rest

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Conditional describes an operation with If-None-Match whose body is an encoded Body, or nothing with the status 304.
// Its output has the fields Status int, ETag string and Body []byte.
func Conditional[Body any]() func(*huma.OpenAPI, *huma.Operation) {
	return func(api *huma.OpenAPI, o *huma.Operation) {
		schema := api.Components.Schemas.Schema(reflect.TypeFor[Body](), true, "")
		o.Responses["200"].Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
		o.Responses["304"] = &huma.Response{Description: "Nothing has changed since the response with this ETag."}
	}
}
