package server_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// The days of history, jobs with five runs each on average, a job that runs all
// the time, failures of each kind, and dead letters. In the order in which it
// would have come: by the time of the end.
const (
	loadDays = `
DO $$ DECLARE day date; BEGIN
    FOR day IN SELECT generate_series((now() AT TIME ZONE 'UTC')::date - 9, (now() AT TIME ZONE 'UTC')::date - 2, interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF run_history FOR VALUES FROM (%L) TO (%L)', 'run_history_' || to_char(day, 'YYYYMMDD'), day || ' 00:00+00', day + 1 || ' 00:00+00');
    END LOOP;
END $$`
	loadQueues = `INSERT INTO queue (namespace_id, name) SELECT $1, 'queue-' || n FROM generate_series(1, 20) n`
	loadJobs   = `
CREATE TABLE load_job AS SELECT n, ('01900000' || lpad(to_hex(n), 8, '0') || '80008000' || lpad(to_hex(n % 65536), 8, '0'))::uuid AS id, (SELECT min(id) FROM queue) + n % 20 AS queue_id FROM generate_series(0, $1::int - 1) n`
	loadJob = `
INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms, timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, schedule, policy)
SELECT get_byte(sha256(uuid_send(id)), 0), id, $1, 0, queue_id, 1, 1, 0, 1, 0, 30000, now(), now(), now(), 'job-' || n, 'noop', '{}', '{"cron":"0 * * * *"}', '{}' FROM load_job`
	loadVersion = `
INSERT INTO job_version (partition, job_id, version, actor, definition, created_at, namespace_id)
SELECT get_byte(sha256(uuid_send(id)), 0), id, 1, 'test', '{"name":"job","schedule":{"cron":"0 * * * *"},"target":{"kind":"noop"}}', now() - interval '9 days', $1 FROM load_job`
	loadHistory = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin, status, session_id, queue_id, reason, message)
SELECT get_byte(sha256(uuid_send(j.id)), 0), 0, 1, j.id, r.at, r.at, r.at, r.at + interval '50 ms', r.ended, 1, 0, 200, '00000000-0000-7000-8000-00000000000a', j.queue_id,
       CASE r.ended WHEN 2 THEN 'attempts' WHEN 3 THEN 'cancelled' WHEN 4 THEN 'overlap' END, CASE r.ended WHEN 2 THEN 'answered 503' END
FROM (SELECT n, now() - interval '9 days' + interval '9 days' * (n::float8 / $1::int) AS at,
             CASE WHEN n % 100 = 7 THEN 2 WHEN n % 1000 = 13 THEN 3 WHEN n % 100 = 9 THEN 4 ELSE 1 END AS ended,
             CASE WHEN n % 10 = 0 THEN 0 ELSE ((n::bigint * 7919 + n / 100) % $2::int)::int END AS job
      FROM generate_series(0, $1::int - 1) n) r
JOIN load_job j ON j.n = r.job ORDER BY r.n`
	loadDead = `
INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, queue_id)
SELECT partition, job_id, due_at, seq, ended_at, attempt, reason, 'answered 503', queue_id FROM run_history WHERE ended = 2 ON CONFLICT DO NOTHING`
)

// TestLoadOfLists measures each filter with BELFRY_RUN_LOAD jobs and five times
// as many ended runs.
func TestLoadOfLists(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("BELFRY_RUN_LOAD"))
	if err != nil {
		t.Skip("set BELFRY_RUN_LOAD to the number of jobs, such as 1000000")
	}
	n := setupNode(t)
	n.exec(loadDays)
	n.exec(loadQueues, defaultNamespace)
	n.exec(loadJobs, jobs)
	n.exec(`CREATE UNIQUE INDEX ON load_job (n)`)
	n.exec(loadJob, defaultNamespace)
	n.exec(loadVersion, defaultNamespace)
	n.exec(loadHistory, 5*jobs, jobs)
	n.exec(loadDead)
	for _, table := range []string{"job", "job_version", "run_history", "dead_letter"} {
		n.exec(`VACUUM ANALYZE ` + table)
	}
	other := n.newKey(n.otherNamespace(), "viewer") // sees nothing among all that
	for _, path := range []string{
		"/runs", "/runs?state=succeeded", "/runs?state=failed", "/runs?state=cancelled", "/runs?state=skipped", "/runs?reason=overlap", "/runs?reason=expired",
		"/runs?queue=queue-3", "/runs?queue=queue-3&state=failed", "/runs?state=due", "/runs?due_before=2020-01-01T00:00:00Z",
		"/runs?job=job-0", "/runs?job=job-0&state=failed", "/runs?job=job-0&reason=expired", "/jobs/job-7/runs", "/jobs/job-7/runs?state=failed",
		"/dead-letters", "/dead-letters?reason=attempts", "/dead-letters?reason=gone", "/dead-letters?job=job-7", "/dead-letters?queue=queue-3",
		"/queues", "/jobs/job-7/why", "/cluster", "/operations", "/audit",
	} {
		n.measure(n.key, path)
	}
	for _, path := range []string{"/runs", "/runs?state=failed", "/dead-letters"} {
		n.measure(other, path)
	}
}

// measure reads up to ten pages of a list, ten times.
func (n *node) measure(key, path string) {
	n.t.Helper()
	var took []time.Duration
	items := 0
	for range 10 {
		token := ""
		for range 10 {
			at := path
			if token != "" {
				at += map[bool]string{false: "?", true: "&"}[strings.Contains(path, "?")] + "page_token=" + token
			}
			began := clock.Elapsed()
			a := n.callAs(key, "GET", at, "")
			took = append(took, clock.Elapsed()-began)
			require.Equal(n.t, 200, a.status, "%s: %s", at, a.body)
			body := a.json(n.t)
			if list, ok := body["items"].([]any); ok {
				items += len(list)
			}
			token, _ = body["next_page_token"].(string)
			if token == "" {
				break
			}
		}
	}
	slices.Sort(took)
	whose := ""
	if key != n.key {
		whose = " (another namespace)"
	}
	n.t.Logf("%-48s p50 %7.1f ms  p95 %7.1f ms  max %7.1f ms  %d requests, %d items", path+whose,
		ms(took[len(took)/2]), ms(took[len(took)*95/100]), ms(took[len(took)-1]), len(took), items)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
