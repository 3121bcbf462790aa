package yamljson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// FuzzYAML checks that JSON is the same after a conversion to YAML and back.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,1.5,-0.0,1e400,12345678901234567890,true,null,"x",{},[]],` +
			`"b":{"2026-01-01":"2026-01-01","y":"no","n":"~"}}`,
		`"\u0000\ud83d\ude00\n \t#: - "`, `-0`, `["0x10","0o7","1_000","<<","=","1:30",".inf","null",""," x "]`, `7`,
		`{"":{"":""}}`, `"\u2028\u0085"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			t.Skip()
		}
		out, err := ToYAML([]byte(text))
		if err != nil {
			t.Skip() // a duplicate key, or nested too deep
		}
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal(out, &n), "%s", out)
		back, err := ToJSON(&n)
		if err != nil {
			t.Skip()
		}
		require.Equal(t, exact(t, text), exact(t, string(back)), "%s", out)
	})
}

// TestAliases: aliases of aliases expand to a limited size, and an alias that contains itself is rejected.
func TestAliases(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 x\n"
	for i := range 7 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
	}
	for _, text := range []string{bomb, "a: &a [*a]"} {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &n))
		_, err := ToJSON(&n)
		require.ErrorContains(t, err, "it is too deep or too large")
	}
}

// exact decodes JSON and keeps each number as it was written.
func exact(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}
