package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Texts that users and targets wrote may have escape sequences in them: such a
// text could recolour a terminal, move its cursor, or read as another one. Nothing
// is printed for people that did not go through clean, or through view.

// clean shows what steers a terminal as an escape, such as \x1b. All of it is on
// one line then.
func clean(s string) string {
	if !strings.ContainsFunc(s, steers) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if steers(r) {
			q := fmt.Sprintf("%+q", string(r))
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cleanLines is clean for texts that have lines of their own.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// steers says that a terminal may obey a character instead of showing it:
// controls, marks that turn the direction of writing, and what is no character.
func steers(r rune) bool {
	switch r {
	case '\u061c', '\u200e', '\u200f', '\u2028', '\u2029', unicode.ReplacementChar:
		return true
	}
	return unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// view reads an answer for people: each of its texts is clean.
func view[T any](raw []byte) (out T, err error) {
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
			v.SetString(clean(v.String()))
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
	case reflect.Map: // of texts, such as labels
		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			v.SetMapIndex(key, reflect.Value{})
			v.SetMapIndex(reflect.ValueOf(clean(key.String())), reflect.ValueOf(clean(value.String())))
		}
	}
}

// escapeJSON writes what steers a terminal as JSON writes it, \u009b: the same
// JSON. What JSON has between its texts, such as line breaks, stays.
func escapeJSON(raw []byte) []byte {
	if !strings.ContainsFunc(string(raw), func(r rune) bool { return r >= 0x7f && steers(r) }) {
		return raw
	}
	var b strings.Builder
	for _, r := range string(raw) {
		if r >= 0x7f && steers(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
