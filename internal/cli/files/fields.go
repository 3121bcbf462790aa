package files

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/cli/yamljson"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// InputForm converts a job of the server to what a user would write: it leaves out the fields that the
// server adds.
func InputForm(raw []byte) (*yaml.Node, error) {
	n, err := yamljson.Node(raw)
	if err != nil {
		return nil, err
	}
	input := fieldsOf[belfry.JobInput]()
	keepFields(n, func(name string) bool { return input[name] })
	return n, nil
}

// dropServerFields removes the fields that the server adds to a job, so that the output of belfry job
// get can be applied. It keeps unknown fields, because those must be rejected.
func dropServerFields(n *yaml.Node) {
	all, input := fieldsOf[belfry.Job](), fieldsOf[belfry.JobInput]()
	keepFields(n, func(name string) bool { return input[name] || !all[name] })
}

func keepFields(n *yaml.Node, keep func(name string) bool) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if keep(n.Content[i].Value) {
			kept = append(kept, n.Content[i], n.Content[i+1])
		}
	}
	n.Content = kept
}

// fieldsOf lists the JSON fields of a type of the API.
func fieldsOf[T any]() map[string]bool {
	out := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = true
	}
	return out
}
