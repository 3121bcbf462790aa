package body

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/problem"
)

func TestMembersTwice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1,"a":2}`: "a",
		`{"a":{"b":[{"c":1},{"c":1,"d":{},"c":2}]}}`: "a.b.c",
		`{"a":"x","\u0061":"y"}`:                     "a",
		`[{"a":[1,2]},{"a":[],"a":[]}]`:              "a",
		`{"a\"":1,"a\"":2}`:                          `a"`,
	} {
		err := CheckMembers([]byte(text))
		require.ErrorContains(t, err, want+": it is written twice", text)
	}
	for _, text := range []string{
		`{}`, `[]`, `"a"`, `null`, ` 5 `, `{"a":"a","b":["a","a"],"c":{"a":"a"}}`, `[{"a":1},{"a":1}]`,
		`{"a":"{\"a\":1,\"a\":2}","b":"\\","c":","}`, `{"a":[[],{}],"b":[{"a":1}]}`,
	} {
		require.NoError(t, CheckMembers([]byte(text)), text)
	}
}

// TestManyMembers: an object of a patch has a maximum number of members, but in the parts that may have any.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	object := func(members int) string {
		var out strings.Builder
		for i := range members {
			fmt.Fprintf(&out, `,"m%d":1`, i)
		}
		return "{" + out.String()[1:] + "}"
	}
	most, more := object(maxMembers), object(maxMembers+1)
	for text, field := range map[string]string{
		most:                               "",
		more:                               "body",
		`{"labels":` + most + `}`:          "",
		`{"labels":` + more + `}`:          "labels",
		`{"a":[{"b":` + more + `}]}`:       "a.b",
		`{"payload":{"a":[` + more + `]}}`: "",
		`{"a":{"payload":` + more + `}}`:   "a.payload",
	} {
		_, err := ParsePatch([]byte(text), "payload")
		if field == "" {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, problem.New(field, "it has more than 1000 members", "send fewer"), problem.All(err)[0])
	}
}
