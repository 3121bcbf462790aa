package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The limits of one JSON text.
const (
	MaxDepth  = 64      // objects and lists within each other
	MaxValues = 150_000 // a payload of 256 kB has at most 131,072
)

// Errors about a text as a whole.
var (
	ErrDepth = fmt.Errorf("the JSON is nested deeper than %d levels; flatten it, or send the inner part as a string",
		MaxDepth)
	ErrValues   = errors.New("the JSON has more values than a valid request; send it in parts, or large lists as a string")
	ErrTrailing = errors.New("there is something behind the end of the object")
)

// checkText returns the number of values in a JSON text, or an error if it is nested too deeply or has more than most. It
// does not check that the text is JSON: of text that is not, the count means nothing.
func checkText(text []byte, most int) (values int, err error) {
	depth := 0
	values = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = endOfString(text, i) - 1
		case '{', '[':
			depth++
			if hasMembers(text[i+1:]) {
				values++
			}
		case '}', ']':
			depth--
		case ',':
			values++
		}
		if depth > MaxDepth {
			return values, ErrDepth
		}
		if values > most {
			return values, ErrValues
		}
	}
	return values, nil
}

// hasMembers reports whether the object or the list that a text is in has a member.
func hasMembers(text []byte) bool {
	for _, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c != '}' && c != ']'
		}
	}
	return false
}

// Unmarshal decodes a JSON text as encoding/json does.
func Unmarshal(text []byte, into any) error {
	if _, err := checkText(text, MaxValues); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// UnmarshalStrictly decodes a JSON text that has one value, no unknown member and none twice.
func UnmarshalStrictly(text []byte, into any) error {
	if _, err := checkText(text, MaxValues); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ErrTrailing
	}
	return CheckMembers(text)
}
