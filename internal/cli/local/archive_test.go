package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// archived is a database with a day of history.
type archived struct {
	t         *testing.T
	url       string
	pool      *pgxpool.Pool
	job       job.Job
	directory string
}

func newArchived(t *testing.T) *archived {
	a := &archived{t: t, directory: t.TempDir()}
	a.url, a.pool = pgtest.ServerURL(t)
	store := pgtest.NewStore(a.pool)
	require.NoError(t, store.CreateHistory(t.Context(), 1))
	var err error
	a.job, err = store.CreateJob(t.Context(), job.CreateParams{
		Namespace: access.DefaultNamespace, Definition: job.Definition{
			Name: "report", Schedule: schedule.Spec{At: "2100-01-01T00:00:00Z"}, Target: job.Target{Kind: "noop"},
		},
	})
	require.NoError(t, err)
	a.exec(`CREATE TABLE run_history_20200229 PARTITION OF run_history FOR VALUES FROM ('2020-02-29Z') TO ('2020-03-01Z')
		WITH (autovacuum_enabled = false)`)
	a.exec(`ALTER TABLE cursor_skip SET (autovacuum_enabled = false)`) // its locks delay the end of a day
	for n := range 20 {                                                // the fifth was retried: it has two ends
		a.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, started_at, ended, attempt,
				origin, status, queue_id, reason, message, attempts)
			SELECT j.partition, 0, 1, j.id, t, t, t + $3 * interval '1 min' + interval '1 s', t + interval '500 ms', $4, $5, 0, 503,
				q.id, $6, 'a message', $7
			FROM job j JOIN queue q ON q.name = 'default' AND q.namespace_id = j.namespace_id,
				LATERAL (SELECT timestamptz '2020-02-29T01:00Z' + $2 * interval '1 min') w (t)
			WHERE j.id = $1`, [16]byte(a.job.ID), min(n, 18), n/19, 1+n%2, 1+n/19, []any{nil, "attempts"}[n%2],
			[]any{nil, `[{"attempt": 1, "outcome": 2, "started_at": "2020-02-29T01:02:03Z", "message": "x"}]`}[n/19])
	}
	return a
}

func (a *archived) exec(sql string, args ...any) {
	a.t.Helper()
	_, err := a.pool.Exec(context.WithoutCancel(a.t.Context()), sql, args...)
	require.NoError(a.t, err)
}

// export archives the day, as a node does.
func (a *archived) export() {
	a.t.Helper()
	db := postgres.New(pgtest.AsServer(a.t, a.pool), postgres.Options{})
	store, err := disk.Open(a.directory)
	require.NoError(a.t, err)
	defer store.Close() //nolint:errcheck // a directory
	id := uuid.New()
	_, err = db.Members().Register(a.t.Context(), id, "test", time.Hour)
	require.NoError(a.t, err)
	_, err = (&archiver.Archiver{
		Days: db.Archive(), Store: store, Session: func() uuid.UUID { return id }, Directory: a.t.TempDir(),
		Log: slog.New(slog.DiscardHandler),
	}).Once(a.t.Context())
	require.NoError(a.t, err)
}

func (a *archived) run(args ...string) (string, error) {
	a.t.Helper()
	return run(a.t, append([]string{"archive"}, append(args, "--database-url", a.url, "--archive-url",
		"file://"+a.directory, "--from", "2020-02-29", "--to", "2020-03-01")...)...)
}

// TestArchivedRunsAreThoseOfTheAPI: what archive runs prints when the day is dropped is what the API answered before.
func TestArchivedRunsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	api := clitest.On(t, cli.New, a.pool)
	want := map[string]map[string]any{}
	for n := range 19 {
		due := time.Date(2020, 2, 29, 1, n, 0, 0, time.UTC)
		id := job.FormatRunID(job.Key{Partition: a.job.Partition, Job: a.job.ID, DueAt: due})
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(api.Good("run", "get", id, "-o", "json")), &r))
		want[id] = r
	}
	a.export()
	dropped, err := pgtest.DropHistory(t.Context(), pgtest.NewStore(a.pool), time.Hour)
	require.NoError(t, err)
	require.Contains(t, dropped, "run_history_20200229")

	out, err := a.run("runs", "--job", "report", "-o", "json")
	require.NoError(t, err)
	var got []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got, 19)
	for _, r := range got {
		require.Equal(t, want[r["id"].(string)], r)
	}
	require.Len(t, got[18]["earlier"], 1)

	out, err = a.run("runs", "--job", job.FormatJobID(a.job.ID))
	require.NoError(t, err)
	require.Equal(t, 20, strings.Count(out, "\n"), out)
	out, err = a.run("runs", "--job", "report", "--limit", "3")
	require.NoError(t, err)
	require.Contains(t, out, "there are more than 3 runs")
	out, err = a.run("runs", "--job", "report", "-o", "parquet")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, "PAR1") && strings.HasSuffix(out, "PAR1"))
	_, err = a.run("runs", "--job", "nothing")
	require.ErrorContains(t, err, `there is no job "nothing" in the namespace default`)
	_, err = a.run("runs", "--job", "report", "--namespace", "nothing")
	require.ErrorContains(t, err, `there is no namespace "nothing"`)
	_, err = a.run("runs")
	require.ErrorContains(t, err, "set --job")
	_, err = a.run("runs", "--job", "report", "-o", "csv")
	require.ErrorContains(t, err, "use table, json, yaml or parquet")
}

// TestArchiveStatusAndVerify: the states of a day, and damage.
func TestArchiveStatusAndVerify(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	status := func() string {
		t.Helper()
		out, err := a.run("status")
		require.NoError(t, err)
		return strings.Join(strings.Fields(strings.TrimSpace(out))[7:], " ")
	}
	require.Equal(t, "2020-02-29 open database 0 0 0 0", status())
	a.exec(`SELECT belfry_close_history()`)
	require.Equal(t, "2020-02-29 waiting database 0 0 0 0", status())
	a.export()
	require.Regexp(t, `^2020-02-29 archived both 20 0 1 \d+$`, status())
	out, err := a.run("verify")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^2020-02-29 +whole +20 +0 +1 +\d+`, out)
	a.exec(`UPDATE archive_day SET runs = 19`)
	_, err = a.run("verify")
	require.EqualError(t, err, "the archive has 1 problem; see docs/guide/archive.md#verify")
	a.exec(`UPDATE archive_day SET runs = 20`)

	parts, err := filepath.Glob(filepath.Join(a.directory, "v1/runs/*/*/*.parquet"))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.NoError(t, os.Remove(parts[0]))
	out, err = a.run("verify")
	require.Error(t, err)
	require.Contains(t, out, "the object is missing")
	manifests, err := filepath.Glob(filepath.Join(a.directory, "v1/manifest/*"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(manifests[0]))
	out, err = a.run("verify", "-o", "json")
	require.Error(t, err)
	require.Contains(t, out, "the manifest is missing")

	a.exec(`UPDATE archive_day SET changed = true, dropped_at = now()`)
	a.exec(`DROP TABLE run_history_20200229`)
	require.Regexp(t, `^2020-02-29 incomplete archive `, status(), "what came late is not in the archive")
	a.exec(`UPDATE archive_day SET archived_at = NULL, changed = false`)
	require.Regexp(t, `^2020-02-29 incomplete archive `, status(), "a node had begun to export it again")
	a.exec(`UPDATE archive_day SET manifest = NULL`)
	require.Regexp(t, `^2020-02-29 dropped none `, status())
	_, err = run(t, "archive", "verify", "--database-url", a.url)
	require.ErrorContains(t, err, "no archive; set archive.url")
	_, err = run(t, "archive", "status", "--database-url", a.url, "--from", "2026-01-02", "--to", "2026-01-01")
	require.EqualError(t, err, fmt.Sprintf("--from %s is after --to %s", "2026-01-02", "2026-01-01"))
}

// TestArchiveOptional: only this command takes back that the archive is required.
func TestArchiveOptional(t *testing.T) {
	t.Parallel()
	url, pool := pgtest.ServerURL(t)
	_, err := pool.Exec(t.Context(), `UPDATE archive_setting SET required = true`)
	require.NoError(t, err)
	out, err := run(t, "archive", "optional", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "the archive is optional")
	var required bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT required FROM archive_setting`).Scan(&required))
	require.False(t, required)
	out, err = run(t, "archive", "optional", "--database-url", url)
	require.NoError(t, err)
	require.Equal(t, "the archive was not required; nothing to change\n", out)
}

// TestArchiveRun exports what is over, also if several commands do it at the same time, and leaves no session.
func TestArchiveRun(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	outputs, failures := make([]string, 3), make([]error, 3)
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() {
			outputs[i], failures[i] = run(t, "archive", "run", "--database-url", a.url, "--archive-url", "file://"+a.directory)
		})
	}
	all.Wait()
	require.Equal(t, make([]error, 3), failures)
	require.Equal(t, 1, strings.Count(strings.Join(outputs, ""), "2020-02-29: archived, 20 runs\n"), "%q", outputs)
	require.Contains(t, strings.Join(outputs, ""), "2020-02-29: read runs")
	require.Contains(t, strings.Join(outputs, ""), "0 days archived")
	var sessions, epoch int
	require.NoError(t, a.pool.QueryRow(t.Context(), `SELECT count(*), (SELECT epoch FROM archive_day WHERE day = '2020-02-29')
		FROM session WHERE expires_at > '-infinity'`).Scan(&sessions, &epoch))
	require.Zero(t, sessions)
	require.Equal(t, 1, epoch, "one of them took the day")
	_, err := run(t, "archive", "run", "--database-url", a.url)
	require.ErrorContains(t, err, "no archive; set archive.url")
	a.exec(`UPDATE cluster SET trusted_at = now() - interval '1 h'`)
	_, err = run(t, "archive", "run", "--database-url", a.url, "--archive-url", "file://"+a.directory)
	require.ErrorContains(t, err, "start a node")
}
