package rest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/server/body"
)

// Validator returns a check of JSON that is only a part of a body, such as one line of several, by the schema of a type
// and with the same words. It explains the first problems, up to a number, and counts the rest: an explanation takes
// longer than what it explains. It reports nothing about text that is not JSON. Call it while operations are registered.
func Validator[T any](a *API) func(text []byte, most int) error {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	return func(text []byte, most int) error {
		var value any
		if body.Unmarshal(text, &value) != nil {
			return nil //nolint:nilerr // whoever decodes the text reports it
		}
		if p := a.validate(schema, value, min(most, maxProblems)); p != nil {
			return p
		}
		return nil
	}
}

const (
	window     = maxProblems // items of a list that huma validates at once
	maxMembers = 1000        // of an object with names that no schema knows, such as labels
)

// validating is the validation of one value. huma reports everything that is wrong with it, and a small body can have
// more problems than fit into memory: a list of a million empty objects lacks millions of fields. So huma sees long
// lists in parts, and of the problems of each part only those are kept that an answer lists.
type validating struct {
	api   *API
	most  int // problems that are kept
	found []error
	more  int // problems that are not kept
	later []items
}

// items are those of a list that huma has not seen yet.
type items struct {
	schema *huma.Schema
	path   string
	values []any
	next   int
}

// validate returns what is wrong with a value, with the first problems explained; nil: nothing.
func (a *API) validate(schema *huma.Schema, value any, most int) *Problem {
	v := validating{api: a, most: most}
	v.check(schema, "body", v.part(schema, "body", value))
	for len(v.later) > 0 {
		l := v.later[0]
		v.later = v.later[1:]
		for i, item := range l.values {
			at := fmt.Sprintf("%s[%d]", l.path, l.next+i)
			v.check(l.schema, at, v.part(l.schema, at, item))
		}
	}
	if len(v.found) == 0 {
		return nil
	}
	explainer := validator{api: a, body: schema}
	p := NewProblem("invalid", seeProblems)
	var found []FieldProblem
	for _, err := range v.found {
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			found = append(found, explainer.explain(d.ErrorDetail())...)
		}
	}
	p.list(found, v.more)
	return p
}

// check lets huma validate a value.
func (v *validating) check(schema *huma.Schema, path string, value any) {
	found := &huma.ValidateResult{}
	at := huma.NewPathBuffer(nil, 0)
	at.Push(path)
	huma.Validate(v.api.huma.OpenAPI().Components.Schemas, schema, at, huma.ModeWriteToServer, value, found)
	v.add(found.Errors...)
}

func (v *validating) add(errs ...error) {
	room := min(len(errs), v.most-len(v.found))
	v.found = append(v.found, errs[:room]...)
	v.more += len(errs) - room
}

// part returns as much of a value as huma may validate at once. The remaining items of lists are validated later, and
// members that no schema knows are counted.
func (v *validating) part(schema *huma.Schema, path string, value any) any {
	schema = v.forValue(schema, value)
	switch value := value.(type) {
	case []any:
		if schema != nil && schema.Items != nil {
			return v.firstItems(schema, path, value)
		}
	case map[string]any:
		if schema != nil && (len(schema.Properties) > 0 || schema.AdditionalProperties != nil) {
			return v.knownMembers(schema, path, value)
		}
	}
	return value
}

// forValue returns the schema of a value: of alternatives, the first that is of the same type.
func (v *validating) forValue(schema *huma.Schema, value any) *huma.Schema {
	schema = validator{api: v.api}.resolve(schema)
	if schema == nil || len(schema.OneOf) == 0 {
		return schema
	}
	_, isObject := value.(map[string]any)
	for _, one := range schema.OneOf {
		one = validator{api: v.api}.resolve(one)
		if one != nil && (one.Type == huma.TypeObject) == isObject {
			return one
		}
	}
	return nil
}

func (v *validating) firstItems(schema *huma.Schema, path string, list []any) any {
	if schema.MaxItems != nil && len(list) > *schema.MaxItems {
		v.add(&huma.ErrorDetail{Location: path, Message: fmt.Sprintf("expected array length <= %d", *schema.MaxItems)})
	} else if len(list) > window {
		v.later = append(v.later, items{schema.Items, path, list[window:], window})
	}
	out := make([]any, min(len(list), window))
	for i := range out {
		out[i] = v.part(schema.Items, fmt.Sprintf("%s[%d]", path, i), list[i])
	}
	return out
}

func (v *validating) knownMembers(schema *huma.Schema, path string, members map[string]any) any {
	out := make(map[string]any, min(len(members), len(schema.Properties)+window))
	values, anyName := schema.AdditionalProperties.(*huma.Schema)
	most := window
	if anyName {
		most = maxMembers
	}
	unknown := 0
	for name, member := range members {
		inner, known := schema.Properties[name]
		if !known {
			inner, known = foldedProperty(schema, name)
		}
		if !known {
			if unknown++; unknown > most {
				continue
			}
			inner = values
		}
		out[name] = v.part(inner, path+"."+name, member)
	}
	switch {
	case unknown <= most:
	case anyName:
		v.add(&huma.ErrorDetail{Location: path, Message: fmt.Sprintf("it has more than %d members", maxMembers)})
	case schema.AdditionalProperties == false:
		v.more += unknown - most
	}
	return out
}

// foldedProperty finds a property as huma does, which ignores case.
func foldedProperty(schema *huma.Schema, name string) (*huma.Schema, bool) {
	for property, inner := range schema.Properties {
		if strings.EqualFold(property, name) {
			return inner, true
		}
	}
	return nil, false
}
