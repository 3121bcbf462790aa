package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestTheAuditLogNamesUsedSecrets: whoever saves a job that uses a secret is in the audit log with its name, and nothing
// else of the target is.
func TestTheAuditLogNamesUsedSecrets(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	_, editor := w.key(access.DefaultNamespace, access.Editor, 0)
	body := func(name, config string) string {
		return fmt.Sprintf(`{"name":%q,"schedule":"every 24h","target":{"kind":"http","config":{%s}}}`, name, config)
	}
	const (
		plain = `"url":"https://x.example/","headers":{"secret":"h1dden"}`
		one   = `"url":"https://x.example/","auth":{"bearer":{"secret":"token"}}`
		three = `"url":"https://x.example/${secret.path}","auth":{"bearer":{"secret":"token"}},"signing":{"secret":"sign"}`
	)
	var many []string // more than an entry lists
	for i := range 3 {
		headers := make([]string, 40)
		for k := range headers {
			headers[k] = fmt.Sprintf(`"x-%d":{"secret":"s-%03d"}`, k, 40*i+k)
		}
		config := `"url":"https://x.example/","headers":{` + strings.Join(headers, ",") + `}`
		many = append(many, body(fmt.Sprintf("many-%d", i), config))
	}
	for _, c := range []struct {
		method, path, body, action, secrets string
		more                                int
	}{
		{"POST", "/api/v1/jobs", body("a", plain), "job.create", "", 0},
		{"PUT", "/api/v1/jobs/a", body("a", one), "job.update", "token", 0},
		{"PUT", "/api/v1/jobs/a", body("a", three), "job.update", "path sign token", 0},
		{"PUT", "/api/v1/jobs/a", body("a", plain), "job.update", "", 0},
		{"POST", "/api/v1/jobs/a:rollback", `{"version":2}`, "job.rollback", "token", 0},
		{"POST", "/api/v1/jobs", body("b", three), "job.create", "path sign token", 0},
		{
			"POST", "/api/v1/jobs:bulk", body("c", one) + "\n" + body("d", three), "job.create_bulk",
			"path sign token", 0,
		},
		{"POST", "/api/v1/jobs:bulk", strings.Join(many, "\n"), "job.create_bulk", "first 100", 20},
	} {
		o := operation{method: c.method, media: "application/json"}
		if strings.HasSuffix(c.path, ":bulk") {
			o.media = "application/x-ndjson"
		}
		got := w.ask(editor, o, c.path, c.body)
		require.Less(t, got.status, 300, got.text)
		rows, err := w.pool.Query(t.Context(), `
SELECT action, detail, coalesce(detail::jsonb->'secrets', '[]'), coalesce((detail::jsonb->>'more_secrets')::int, 0)
FROM audit_log WHERE namespace_id = $1 ORDER BY seq DESC LIMIT 1`, access.DefaultNamespace)
		require.NoError(t, err)
		entry, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct {
			Action, Detail string
			Secrets        []string
			More           int
		}])
		require.NoError(t, err)
		require.Equal(t, c.action, entry.Action)
		require.Equal(t, c.more, entry.More)
		if c.more > 0 {
			require.Len(t, entry.Secrets, 100)
		} else {
			require.Equal(t, c.secrets, strings.Join(entry.Secrets, " "), entry.Detail)
		}
		require.NotContains(t, entry.Detail, "h1dden")
		require.NotContains(t, entry.Detail, "x.example")
	}
}
