package expr

import (
	"encoding/json"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// decode converts a payload to a CEL value. A payload that is not JSON becomes a string.
func decode(payload string) ref.Val {
	switch {
	case payload == "":
		return types.NullValue
	case len(payload) > MaxPayload:
		return types.NewErr("the payload has %d bytes; expressions read at most %d", len(payload), MaxPayload)
	}
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return types.String(payload)
	}
	return types.DefaultTypeAdapter.NativeToValue(numbers(v))
}

// numbers converts whole numbers to integers, in place.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String() // too large: keep its digits
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
		return v
	default:
		return v
	}
}
