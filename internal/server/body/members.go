package body

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
)

// memberTwice returns the problem of a member that an object has twice.
func memberTwice(path string) *problem.Problem {
	return problem.New(problem.Printable(path), "it is written twice", "write it once")
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

// endOfString returns the index behind the string that begins at i. A string without an end ends with the text.
func endOfString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
}

func unquoted(text []byte) (s string) {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	_ = json.Unmarshal(text, &s) // the text is valid JSON
	return s
}
