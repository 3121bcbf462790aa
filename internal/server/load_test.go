package server_test

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	loadSchedules = 20
	loadBulk      = 50_000 // made through the API
	loadLines     = 5_000
	loadClients   = 2
	loadRequests  = 40 // of each list
)

// TestListsOfManyJobs measures bulk create, and then pages of lists among as many
// jobs as BELFRY_LOAD_JOBS says: BELFRY_LOAD_JOBS=1000000 go test -run ManyJobs -v
// -timeout 30m ./internal/server, on a server with a disk.
func TestListsOfManyJobs(t *testing.T) {
	t.Parallel()
	jobs, _ := strconv.Atoi(os.Getenv("BELFRY_LOAD_JOBS"))
	if jobs == 0 {
		t.Skip("set BELFRY_LOAD_JOBS")
	}
	b := setup(t)
	b.bulkLoad()
	b.fill(jobs - loadBulk)
	var middle, now string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT encode(uuid_send(id), 'hex'), to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM job ORDER BY id OFFSET $1 LIMIT 1`, jobs/2).Scan(&middle, &now))
	at, err := time.Parse(time.RFC3339, now)
	require.NoError(t, err)
	in := func(d time.Duration) string { return at.Add(d).Format(time.RFC3339) }
	for _, query := range []string{
		"", "page_size=500",
		"label=half%3Dyes", "label=few%3Dyes", "label=newest%3Dyes", "label=half%3Dyes&label=few%3Dyes", "label=half%3Dyes&label=newest%3Dyes",
		"state=paused", "state=active", "state=finished",
		"target=http", "target=few", "queue=half", "queue=few",
		"name=alpha", "name=needle", "name=newest", "name=nowhere", "name=zq",
		"state=paused&queue=half", "target=http&label=few%3Dyes", "name=alpha&state=finished",
		"due_before=" + in(10*time.Minute), "due_before=" + in(24*time.Hour), "due_after=" + in(20*time.Minute) + "&due_before=" + in(21*time.Minute),
		"label=half%3Dyes&due_before=" + in(24*time.Hour), "label=few%3Dyes&due_before=" + in(24*time.Hour),
	} {
		b.measureList(query)
	}
}

// bulkLoad makes the first jobs through the API, by some clients at once.
func (b *bundle) bulkLoad() {
	bodies := make(chan string, loadBulk/loadLines)
	for from := 0; from < loadBulk; from += loadLines {
		var body strings.Builder
		for i := from; i < from+loadLines; i++ {
			fmt.Fprintf(&body, `{"name":"%s-%07d","schedule":{"cron":"%d * * * *"},"target":{"kind":"noop"},"labels":{"half":"no"},"payload":{"customer":%d,"note":"%s"}}`+"\n",
				[]string{"alpha", "beta"}[i%2], i, 3*(i%loadSchedules), i, strings.Repeat("x", 200))
		}
		bodies <- body.String()
	}
	close(bodies)
	began := clock.Elapsed()
	var wait sync.WaitGroup
	for range loadClients {
		wait.Go(func() {
			for body := range bodies {
				a := b.call("POST", "/jobs:bulk", body, "Content-Type", "application/x-ndjson")
				if a.status != 200 || a.json(b.t)["created"] != float64(loadLines) {
					b.t.Errorf("%d %.300s", a.status, a.body)
				}
			}
		})
	}
	wait.Wait()
	took := clock.Elapsed() - began
	b.t.Logf("bulk create: %d jobs in %s, %.0f jobs/s", loadBulk, took.Round(time.Millisecond), loadBulk/took.Seconds())
}

// fill copies the definition of the first jobs: half of the copies have what is
// asked for, three have what is rare, and the last tenth what is new.
func (b *bundle) fill(n int) {
	b.t.Helper()
	exec := func(sql string, args ...any) {
		_, err := b.pool.Exec(b.t.Context(), sql, args...)
		require.NoError(b.t, err)
	}
	exec(`INSERT INTO queue (namespace_id, name) VALUES ($1, 'half'), ($1, 'few')`, defaultNamespace)
	const batch = 50_000
	for from := 1; from <= n; from += batch {
		exec(`
WITH n AS MATERIALIZED (
    SELECT i, i IN (1000, $2 / 2, $2 - 1000) AS few, i % 2 = 0 AS half, i > $2 - $2 / 10 AS newest,
        (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + i), 12, '0') || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid AS id
    FROM generate_series($1::integer, least($1 + $3 - 1, $2)::integer) i
), k AS MATERIALIZED (SELECT row_number() OVER (ORDER BY key) - 1 AS n, key FROM (SELECT DISTINCT key FROM cursor) d),
m AS (SELECT * FROM job WHERE name = 'alpha-0000000')
INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms, timeout_ms, plan_from, created_at, updated_at,
    name, target_kind, target_config, payload, schedule, policy, labels)
SELECT c.partition, n.id, m.namespace_id, c.id, CASE WHEN few THEN (SELECT id FROM queue WHERE name = 'few') WHEN half THEN (SELECT id FROM queue WHERE name = 'half') ELSE m.queue_id END,
    1, CASE WHEN few THEN 3 WHEN half THEN 2 ELSE 1 END, 0, m.admit, 0, m.timeout_ms, m.plan_from, m.created_at, m.created_at,
    CASE WHEN few THEN 'the needle ' WHEN newest THEN 'newest-' WHEN half THEN 'alpha-' ELSE 'beta-' END || 'x' || n.i,
    CASE WHEN few THEN 'few' WHEN half THEN 'http' ELSE 'noop' END, '{}', m.payload, m.schedule, m.policy,
    jsonb_build_object('half', CASE WHEN half THEN 'yes' ELSE 'no' END, 'few', CASE WHEN few THEN 'yes' ELSE 'no' END, 'newest', CASE WHEN newest THEN 'yes' ELSE 'no' END)
FROM n, m, k, cursor c
WHERE k.n = n.i % $4 AND c.key = k.key AND c.partition = get_byte(sha256(uuid_send(n.id)), 0)`, from, n, batch, loadSchedules)
	}
	exec(`VACUUM ANALYZE job, job_label, cursor, run`)
	var made int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM job`).Scan(&made))
	b.t.Logf("%d jobs", made)
}

// measureList reads the first page of a list again and again, and its second.
func (b *bundle) measureList(query string) {
	b.t.Helper()
	var times []time.Duration
	items, next := 0, ""
	for i := range loadRequests {
		token := ""
		if i%2 == 1 && next != "" {
			token = "&page_token=" + url.QueryEscape(next)
		}
		began := clock.Elapsed()
		a := b.call("GET", "/jobs?"+query+token, "")
		times = append(times, clock.Elapsed()-began)
		require.Equal(b.t, 200, a.status, "%s", a.body)
		if token == "" {
			got := a.json(b.t)
			items = len(got["items"].([]any))
			next, _ = got["next_page_token"].(string)
		}
	}
	slices.Sort(times)
	ms := func(p int) float64 { return float64(times[len(times)*p/100].Microseconds()) / 1000 }
	b.t.Logf("%-70s p50 %6.1f ms  p95 %6.1f ms  %d items, more: %t", query, ms(50), ms(95), items, next != "")
}
