package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/problem"
)

func nested(depth int) string { return strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth) }

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`5`: 1, ` {} `: 1, `[ ]`: 1, `[1]`: 2, `{"a":1,"b":[2,{}]}`: 5, `["[,{", "\"[["]`: 3, nested(MaxDepth): MaxDepth,
		`"`: 1, `"\`: 1, `{"a`: 2, `]]]]`: 1, `[`: 1,
		"[" + strings.Repeat("1,", MaxValues-2) + "1]": MaxValues,
	} {
		got, err := checkText([]byte(text), MaxValues)
		require.NoError(t, err)
		require.Equal(t, want, got, "%.40s", text)
	}
	for text, want := range map[string]error{
		nested(MaxDepth + 1): ErrDepth, strings.Repeat(`{"a":`, MaxDepth+1): ErrDepth,
		"[" + strings.Repeat("1,", MaxValues-1) + "1]": ErrValues, "[" + strings.Repeat("[],", MaxValues) + "1]": ErrValues,
	} {
		_, err := checkText([]byte(text), MaxValues)
		require.ErrorIs(t, err, want)
		var into any
		require.ErrorIs(t, Unmarshal([]byte(text), &into), want)
		require.ErrorIs(t, UnmarshalStrictly([]byte(text), &into), want)
		_, err = ParsePatch([]byte(text))
		require.ErrorIs(t, err, want)
	}
}

func TestCheckAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	text := []byte(`{"a":[{"b":"c"},1,2,3],"d":{}}`)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = checkText(text, MaxValues) }))
}

func TestUnmarshalStrictly(t *testing.T) {
	t.Parallel()
	var into struct {
		A int `json:"a"`
	}
	require.NoError(t, UnmarshalStrictly([]byte(` {"a":5} `), &into))
	require.Equal(t, 5, into.A)
	require.ErrorIs(t, UnmarshalStrictly([]byte(`{"a":5} 6`), &into), ErrTrailing)
	require.ErrorContains(t, UnmarshalStrictly([]byte(`{"a":5,"a":6}`), &into), "twice")
	require.Error(t, UnmarshalStrictly([]byte(`{"b":5}`), &into))
}

func TestPatch(t *testing.T) {
	t.Parallel()
	// The examples of RFC 7396, as far as both are objects.
	for _, tc := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"n":1.0,"m":1e2}`, `{"o":12345678901234567890.10}`, `{"n":1.0,"m":1e2,"o":12345678901234567890.10}`},
	} {
		p, err := ParsePatch([]byte(tc[1]))
		require.NoError(t, err, tc[1])
		got, err := p.Apply([]byte(tc[0]))
		require.NoError(t, err)
		require.Equal(t, decoded(t, tc[2]), decoded(t, string(got)), tc[1])
	}
	p, err := ParsePatch([]byte(`{"a":{"b":null},"c":1}`))
	require.NoError(t, err)
	require.True(t, p.Has("a", "b") && p.Has("c") && p.Has("a"))
	require.False(t, p.Has("b") || p.Has("c", "d") || p.Has("a", "c"))
	for _, text := range []string{``, `null`, `[]`, `5`, `{`, `{"a":1}}`, `{"a":1} 5`} {
		_, err := ParsePatch([]byte(text))
		require.ErrorIs(t, err, ErrNoObject, text)
	}
	_, err = ParsePatch([]byte(`{"a":1,"a":2}`))
	require.Len(t, problem.All(err), 1)
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), text)
	return v
}

// FuzzCheck compares with encoding/json: depth and values of a JSON document, and the members that an object has twice.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,{"b":"\"[\\"}],"c":{}}`, nested(MaxDepth), nested(MaxDepth + 1), `[ { } , "\u005b" ]`, `{"a":1,"\u0061":2}`,
		`"\`, `{"":{"":[]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := checkText(text, MaxValues)
		if !json.Valid(text) {
			return
		}
		wantDepth, wantValues, twice := scan(t, text)
		switch {
		case wantDepth > MaxDepth:
			require.Error(t, err)
			return
		case wantValues > MaxValues:
			require.ErrorIs(t, err, ErrValues)
			return
		}
		require.NoError(t, err)
		require.Equal(t, wantValues, values)
		require.Equal(t, twice, CheckMembers(text) != nil)
	})
}

// scan is the simple way to find the depth, the number of values, and whether an object has a member twice.
func scan(t *testing.T, text []byte) (deepest, values int, twice bool) {
	t.Helper()
	type level struct {
		names map[string]bool // nil in a list
		value bool            // the next token is a value
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	levels := []level{{value: true}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return deepest, values, twice
		}
		require.NoError(t, err)
		in := &levels[len(levels)-1]
		if token == json.Delim(']') || token == json.Delim('}') {
			levels = levels[:len(levels)-1]
			continue
		}
		if name, ok := token.(string); ok && in.names != nil && !in.value {
			twice = twice || in.names[name]
			in.names[name], in.value = true, true
			continue
		}
		values++
		in.value = in.names == nil
		switch token {
		case json.Delim('['):
			levels = append(levels, level{value: true})
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		}
		deepest = max(deepest, len(levels)-1)
	}
}

// FuzzPatch compares with a merge that decodes each level by itself.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":[1,null]},"d":"x"}`), []byte(`{"a":{"b":null,"e":{"f":null,"g":1.0}},"d":{"h":[]}}`))
	f.Add([]byte(`{}`), []byte(`{"a":null,"":{"":{}}}`))
	f.Fuzz(func(t *testing.T, object, patch []byte) {
		p, err := ParsePatch(patch)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(object, &members) != nil || members == nil || CheckMembers(object) != nil {
			return
		}
		got, err := p.Apply(object)
		require.NoError(t, err)
		require.True(t, json.Valid(got))
		want := simpleMerge(t, object, patch)
		require.True(t, reflect.DeepEqual(decoded(t, string(want)), decoded(t, string(got))), "%s\n%s", want, got)
	})
}

func simpleMerge(t *testing.T, target, patch json.RawMessage) json.RawMessage {
	t.Helper()
	var change, into map[string]json.RawMessage
	if json.Unmarshal(patch, &change) != nil || change == nil {
		return patch
	}
	if json.Unmarshal(target, &into) != nil || into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range change {
		if string(value) == "null" {
			delete(into, name)
		} else {
			into[name] = simpleMerge(t, into[name], value)
		}
	}
	out, err := json.Marshal(into)
	require.NoError(t, err)
	return out
}
