package terminal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Text from users and targets may contain escape sequences. Printed as it is, it could recolour a
// terminal, move its cursor or pass for other text. Everything printed for people goes through
// Clean, CleanLines or Decode first.

// Clean replaces control characters, line breaks included, with escapes such as \x1b.
func Clean(s string) string {
	if !strings.ContainsFunc(s, isUnsafe) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isUnsafe(r) {
			q := fmt.Sprintf("%+q", string(r))
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// CleanLines does the same for text of several lines and keeps the line breaks.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// isUnsafe reports whether a terminal may act on a character instead of showing it: control
// characters, marks that change the direction of writing, and invalid characters.
func isUnsafe(r rune) bool {
	switch r {
	case '\u061c', '\u200e', '\u200f', '\u2028', '\u2029', unicode.ReplacementChar:
		return true
	}
	return unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// Decode decodes a response of the server for people: every string in it is cleaned.
func Decode[T any](raw []byte) (out T, err error) {
	if err = json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("the answer is not what this belfry expects; is it older than the server? %w", err)
	}
	cleanValue(reflect.ValueOf(&out).Elem())
	return out, nil
}

var rawJSON = reflect.TypeFor[json.RawMessage]()

func cleanValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(Clean(v.String()))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			cleanValue(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			cleanValue(v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == rawJSON {
			v.SetBytes(escapeJSON(v.Bytes()))
			return
		}
		for i := range v.Len() {
			cleanValue(v.Index(i))
		}
	case reflect.Map: // of strings, such as labels
		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			v.SetMapIndex(key, reflect.Value{})
			v.SetMapIndex(reflect.ValueOf(Clean(key.String())), reflect.ValueOf(Clean(value.String())))
		}
	}
}

// escapeJSON writes control characters as JSON escapes such as \u009b, so the JSON means the same.
// It leaves ASCII alone: JSON already escapes control characters in strings, and the line breaks
// between values must stay.
func escapeJSON(raw []byte) []byte {
	if !strings.ContainsFunc(string(raw), func(r rune) bool { return r >= 0x7f && isUnsafe(r) }) {
		return raw
	}
	var b strings.Builder
	for _, r := range string(raw) {
		if r >= 0x7f && isUnsafe(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
