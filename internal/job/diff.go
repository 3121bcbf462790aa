package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// FieldChange is a field of a definition whose values differ. A value that is missing is nil.
type FieldChange struct {
	Field         string // path, such as retry.max_attempts
	Before, After any    // JSON values; numbers are json.Number
}

// Changes lists the fields in which two definitions differ, by their paths. Defaults are filled in first, so
// definitions with the same meaning have no changes.
func Changes(before, after Definition) ([]FieldChange, error) {
	a, err := before.normal()
	if err != nil {
		return nil, err
	}
	b, err := after.normal()
	if err != nil {
		return nil, err
	}
	return fieldChanges("", a, b, nil), nil
}

// normal is the definition with its defaults, as JSON.
func (d Definition) normal() (map[string]any, error) {
	text, err := json.Marshal(d.WithDefaults())
	if err != nil {
		return nil, fmt.Errorf("compare definitions: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a number of 64 bits must not be rounded
	out := map[string]any{}
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("compare definitions: %w", err)
	}
	return out, nil
}

func fieldChanges(path string, before, after map[string]any, out []FieldChange) []FieldChange {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		a, b := before[k], after[k]
		inA, okA := a.(map[string]any)
		inB, okB := b.(map[string]any)
		switch {
		case okA && okB:
			out = fieldChanges(path+k+".", inA, inB, out)
		case !sameJSON(a, b):
			out = append(out, FieldChange{path + k, a, b})
		}
	}
	return out
}

// sameJSON reports whether two JSON values are equal.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
