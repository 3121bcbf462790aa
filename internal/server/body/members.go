package body

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
)

// memberTwice returns the problem of a member that an object has twice.
func memberTwice(path string) *problem.Problem {
	return problem.New(problem.Printable(path), "it is written twice", "write it once")
}

// tooManyMembers returns the problem of an object with more members than a valid one has.
func tooManyMembers(path string, most int) *problem.Problem {
	return problem.New(problem.Printable(cmp.Or(path, "body")), fmt.Sprintf("it has more than %d members", most),
		"send fewer")
}

// level is an object or a list around what is being read.
type level struct {
	members map[string]bool // nil in a list
	name    string          // of the member that is being read
}

func pathOf(levels []level) string {
	var path []string
	for _, l := range levels {
		if l.members != nil {
			path = append(path, l.name)
		}
	}
	return strings.Join(path, ".")
}

// maxMembers bounds objects of a patch.
const maxMembers = 1000

// CheckMembers reports a member that an object of a JSON text has twice. The text must be valid JSON.
func CheckMembers(text []byte) error { return checkMembers(text, math.MaxInt, nil) }

// checkMembers also reports an object with too many members, unless it is in one of the members free of the whole.
func checkMembers(text []byte, most int, free []string) error {
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
					return memberTwice(pathOf(levels))
				}
				in.members[in.name] = true
				if len(in.members) > most && (len(levels) == 1 || !slices.Contains(free, levels[0].name)) {
					return tooManyMembers(pathOf(levels[:len(levels)-1]), most)
				}
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
