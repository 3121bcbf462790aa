package server_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	viewer := b.newKey(defaultNamespace, access.Viewer)
	require.JSONEq(t, `{"labels":[],"partial":false}`, string(b.callAs(viewer, "GET", "/labels", "").body))
	for i := range 25 {
		b.make(fmt.Sprintf(`{"name":"j%d","schedule":"every 1h","target":{"kind":"noop"},`+
			`"labels":{"team":"t%d","n":"%02d","a/b.c":""}}`, i, i%3, i))
	}
	foreign := uuid.New()
	_, err := b.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'other')`, foreign)
	require.NoError(t, err)
	require.Equal(t, 201, b.callAs(b.newKey(foreign, access.Admin), "POST", "/jobs",
		`{"name":"x","schedule":"every 1h","target":{"kind":"noop"},"labels":{"theirs":"x","team":"theirs"}}`).status)

	require.JSONEq(t, `{"labels":[{"key":"a/b.c","values":1,"jobs":25},
		{"key":"n","values":20,"more_values":true,"jobs":25},{"key":"team","values":3,"jobs":25}],"partial":false}`,
		string(b.callAs(viewer, "GET", "/labels", "").body))
	require.JSONEq(t, `{"values":[{"value":"t0","jobs":9},{"value":"t1","jobs":8},{"value":"t2","jobs":8}],"partial":false}`,
		string(b.callAs(viewer, "GET", "/labels/team", "").body))
	require.JSONEq(t, `{"values":[{"value":"","jobs":25}],"partial":false}`,
		string(b.callAs(viewer, "GET", "/labels/a%2Fb.c", "").body))
	require.Len(t, b.callAs(viewer, "GET", "/labels/n?prefix=1", "").json(t)["values"], 10)
	require.Empty(t, b.callAs(viewer, "GET", "/labels/none", "").json(t)["values"])
	require.Equal(t, 401, b.callAs("", "GET", "/labels", "").status)
}

// TestLabelsAreBounded: counts and lists stop, and say so.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `
INSERT INTO job_label (namespace_id, key, value, job_id)
SELECT $1::uuid, 'many', 'one', gen_random_uuid() FROM generate_series(1, 1001)
UNION ALL SELECT $1, 'values', 'v' || n, gen_random_uuid() FROM generate_series(1, 201) n
UNION ALL SELECT $1, 'key' || n, '', gen_random_uuid() FROM generate_series(1, 99) n`, defaultNamespace)
	require.NoError(t, err)
	got := b.call("GET", "/labels", "").json(t)
	require.Equal(t, true, got["partial"])
	require.Len(t, got["labels"], 100)
	require.JSONEq(t, `{"values":[{"value":"one","jobs":1000,"more":true}],"partial":false}`,
		string(b.call("GET", "/labels/many", "").body))
	got = b.call("GET", "/labels/values", "").json(t)
	require.Equal(t, true, got["partial"])
	require.Len(t, got["values"], 200)
}
