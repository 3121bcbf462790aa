package rest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/problem"
)

// strictJSON is the JSON of request bodies. It rejects an object that has a member twice: encoding/json
// would ignore all but the last.
func strictJSON() huma.Format {
	plain := huma.DefaultJSONFormat
	return huma.Format{
		Marshal: plain.Marshal,
		Unmarshal: func(data []byte, v any) error {
			if err := plain.Unmarshal(data, v); err != nil {
				return err
			}
			if _, validates := v.(*any); !validates { // huma reads a body twice, first to validate it
				return nil
			}
			return CheckMembers(data)
		},
	}
}

// memberTwice returns the problem of a member that an object has twice.
func memberTwice(path string) *problem.Problem {
	return problem.New(Printable(path), "it is written twice", "write it once")
}

// twiceIn returns the path in an error of CheckMembers, of which huma keeps only the text.
func twiceIn(message string) (path string, ok bool) {
	return strings.CutSuffix(message, memberTwice("").Error())
}

// CheckMembers reports a member that an object of a JSON text has twice. The text must be valid JSON.
func CheckMembers(text []byte) error {
	type level struct {
		members map[string]bool // nil in a list
		name    string          // of the member that is being read
	}
	var levels []level
	isName := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			levels, isName = append(levels, level{members: map[string]bool{}}), true
		case '[':
			levels, isName = append(levels, level{}), false
		case '}', ']':
			levels, isName = levels[:len(levels)-1], false
		case ',':
			isName = levels[len(levels)-1].members != nil
		case '"':
			end := endOfString(text, i)
			if isName {
				in := &levels[len(levels)-1]
				in.name, isName = unquoted(text[i:end]), false
				if in.members[in.name] {
					var path []string
					for _, l := range levels {
						if l.members != nil {
							path = append(path, l.name)
						}
					}
					return memberTwice(strings.Join(path, "."))
				}
				in.members[in.name] = true
			}
			i = end - 1
		}
	}
	return nil
}

// endOfString returns the index behind the string that begins at i.
func endOfString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func unquoted(text []byte) (s string) {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	_ = json.Unmarshal(text, &s) // the text is valid JSON
	return s
}
