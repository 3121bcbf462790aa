package settings_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

func TestReaderCollectsProblems(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{} {}`} {
		r := settings.Read([]byte(raw), `{"a": 1}`)
		require.Nil(t, r.Fields, raw)
		require.Equal(t, []*problem.Problem{{
			Field: "target.config", Problem: "it is not a JSON object", Fix: `write for example {"a": 1}`,
		}}, problem.All(r.Err()), raw)
	}
	r := settings.Read([]byte(`{"a": 1, "A": 2}`), "")
	require.NoError(t, r.Err())
	require.Len(t, r.Fields, 2, "names have case")
	r.Add("a", "it is wrong", "fix it")
	r.Add("b", "it is wrong too", "fix it")
	problems := problem.All(r.Err())
	require.Len(t, problems, 2)
	require.Equal(t, "target.config.a", problems[0].Field)
	require.Equal(t, "target.config.b", problems[1].Field)
	require.Equal(t, strings.Repeat("x", 57)+"…", settings.ShowName(strings.Repeat("x", 61)))
}
