package rest

import (
	"reflect"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
)

type colors struct{}

func (colors) Name() string { return "Color" }

func (colors) Values() []any { return []any{"red", "blue"} }

type Paint struct {
	Color Enum[colors] `json:"color"`
	Name  string       `json:"name" doc:"Its name."`
}

func (Paint) Descriptions() map[string]string { return map[string]string{"color": "Its color."} }

type tin struct {
	Paint
	Liters int `json:"liters"`
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	r := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	for _, kind := range []reflect.Type{reflect.TypeFor[Paint](), reflect.TypeFor[tin]()} {
		ref := r.Schema(kind, true, "")
		addDescriptions(r)
		color := r.SchemaFromRef(ref.Ref).Properties["color"]
		require.Equal(t, "Its color.", color.Description, kind)
		require.Equal(t, []any{"red", "blue"}, r.SchemaFromRef(color.Ref).Enum, kind)
		require.Equal(t, "Its name.", r.SchemaFromRef(ref.Ref).Properties["name"].Description, kind)
	}
}
