package postgres_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestInspectFindsOldFindings: an open finding is seen behind as many newer ones that were backfilled as are counted.
func TestInspectFindsOldFindings(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	id := uuid.New()
	const find = `
INSERT INTO audit_finding (partition, job_id, due_at, kind, namespace_id, found_at)
SELECT $1, $2, now() - n * interval '1 s', 'missing', $3, now() - n * interval '1 min'
FROM generate_series($4::int, $5) n`
	b.exec(find, partition, id, b.namespace, 1, doctor.MaxFindings)
	b.exec(`
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, queue_id)
SELECT partition, 0, 1, job_id, due_at, due_at, due_at, now(), 1, 1, 2, 200, 1 FROM audit_finding`)
	_, c, err := b.store.Inspect(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Findings, "all were backfilled")

	b.exec(find, partition, id, b.namespace, doctor.MaxFindings+1, doctor.MaxFindings+1)
	_, c, err = b.store.Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, c.Findings)
	require.Equal(t, id, c.Newest.Job)
}

// TestInspectFindsKindsWithoutANode: active jobs whose kind of target no live node has.
func TestInspectFindsKindsWithoutANode(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	undelivered := func() []string {
		_, c, err := b.store.Inspect(t.Context())
		require.NoError(t, err)
		return c.Undelivered
	}
	require.Empty(t, undelivered())
	for _, kind := range []string{"http", "nats", "kafka", "amqp"} {
		d := definition(kind, everyMinute)
		d.Target = job.Target{Kind: kind, Config: json.RawMessage(`{}`)}
		_, err := b.store.CreateJob(t.Context(), job.CreateParams{
			Namespace: access.DefaultNamespace, Definition: d, Actor: "test",
		})
		require.NoError(t, err)
	}
	b.exec(`UPDATE job SET state = 3, finished_at = now() WHERE target_kind = 'amqp'`)
	node := func(kinds, expires string) {
		b.exec(`INSERT INTO session (id, name, started_at, expires_at, info)
			VALUES (gen_random_uuid(), 'n', now(), now() + $2::interval, jsonb_build_object('kinds', $1::jsonb))`, kinds, expires)
	}
	node(`["http", "noop"]`, "1 h")
	node(`["nats"]`, "-1 h")
	require.Equal(t, []string{"default/kafka", "default/nats"}, undelivered())
	node(`["nats", "kafka"]`, "1 h")
	require.Empty(t, undelivered())
}

// TestInspectFindsMissingObjects: doctor names what was dropped, and its statements create it again. objects.txt has what
// the migrations create. Versions of PostgreSQL print some statements differently, so only names are compared here.
func TestInspectFindsMissingObjects(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	lines, err := b.store.ReadObjects(t.Context())
	require.NoError(t, err)
	switch text := strings.Join(lines, "\n") + "\n"; os.Getenv("BELFRY_OBJECTS") {
	case "update":
		require.NoError(t, os.WriteFile("objects.txt", []byte(text), 0o600))
		return // the program has the old list
	case "verify":
		known, err := os.ReadFile("objects.txt")
		require.NoError(t, err)
		require.Equal(t, string(known), text, "run: make generate/schema")
	}
	missing := func() []doctor.Object {
		_, c, err := b.store.Inspect(t.Context())
		require.NoError(t, err)
		return c.Missing
	}
	require.Empty(t, missing())
	b.exec(`DROP INDEX run_needs_sweep, run_history_ended`)
	b.exec(`DROP POLICY worker ON run`)
	b.exec(`ALTER TABLE job DISABLE ROW LEVEL SECURITY`)
	b.exec(`ALTER TABLE permit DROP CONSTRAINT permit_pkey`)
	var names []string
	for _, o := range missing() {
		names = append(names, o.Name)
		b.exec(o.Statement)
	}
	require.Equal(t, []string{
		"index permit_pkey", "index run_history_ended", "index run_needs_sweep", "policy worker of run",
		"row-level security of job",
	}, names)
	require.Empty(t, missing())
	again, err := b.store.ReadObjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, lines, again, "as they were, and objects.txt has them all")
	require.Len(t, lines, strings.Count(postgres.Objects, "\n"), "run: make generate/schema")
}
