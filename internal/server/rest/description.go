package rest

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Go cannot break a struct tag into lines. What is too long for one is written as code: descriptions as
// Described, lists of values as Enum.

// Described is a struct of the API with descriptions that are too long for the tags of its fields.
type Described interface {
	// Descriptions returns the descriptions by the JSON names of the fields.
	Descriptions() map[string]string
}

// Enum is a string with a fixed list of values.
type Enum[V Values] string

// Values lists the values of an Enum, and names its schema.
type Values interface {
	Name() string
	Values() []any
}

// Schema is called by huma. The schema has a name, so that a generated client has one type for it.
func (Enum[V]) Schema(r huma.Registry) *huma.Schema {
	var v V
	schema := &huma.Schema{Type: "string", Enum: v.Values()}
	schema.PrecomputeMessages()
	r.Map()[v.Name()] = schema
	return &huma.Schema{Ref: schemaPrefix + v.Name()}
}

const schemaPrefix = "#/components/schemas/"

// schemaName names the schema of a Go type: after the type, and a page after its items.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if item, ok := strings.CutPrefix(name, "Page"); ok && strings.HasPrefix(t.Name(), "Page[") {
		return item + "List"
	}
	return name
}

// addDescriptions adds the descriptions of all types that are Described. A type that embeds such a type
// has its fields and its descriptions too.
func addDescriptions(r huma.Registry) {
	for name, schema := range r.Map() {
		t := r.TypeFromRef(schemaPrefix + name)
		if t == nil {
			continue // a schema that was made without a Go type
		}
		d, ok := reflect.Zero(t).Interface().(Described)
		if !ok {
			continue
		}
		for field, text := range d.Descriptions() {
			schema.Properties[field].Description = text
		}
	}
}
