package body

import (
	"testing"

	"github.com/stretchr/testify/require"
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
