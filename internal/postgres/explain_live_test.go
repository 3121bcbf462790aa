package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// TestFiltersOfTheAuditLogWalkTheirIndexes, under row-level security, whatever the statistics say.
func TestFiltersOfTheAuditLogWalkTheirIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE audit_log SET (autovacuum_enabled = false)`)
	b.exec(`INSERT INTO audit_log (namespace_id, seq, at, actor, action, object, detail, hash)
		SELECT ` + bulkNamespace + `, g, now() - interval '1 min' * (30000 - g), 'key:k' || g % 50 || ' [key_x]',
		       (ARRAY['job.create', 'job.pause', 'queue.pause'])[1 + g % 3], 'job_' || lpad((g % 1000)::text, 26, '0'), '{}', '\x00'
		FROM generate_series(1, 30000) g`)
	now := b.now()
	params := func(change func(*access.AuditParams)) access.AuditParams {
		o := access.AuditParams{Namespace: access.DefaultNamespace, Limit: 50}
		change(&o)
		return o
	}
	for _, statistics := range []string{"never analysed", "analysed"} {
		for name, c := range map[string]struct {
			params access.AuditParams
			found  int
			ways   []string
		}{
			"object": {
				params(func(o *access.AuditParams) { o.Object = fmt.Sprintf("job_%026d", 7) }), 30,
				[]string{"audit_log by namespace_id object seq", "audit_log by namespace_id seq"},
			},
			"name": {
				params(func(o *access.AuditParams) { o.Object = "imports" }), 0,
				[]string{"audit_log by namespace_id seq"},
			},
			"actor": {
				params(func(o *access.AuditParams) { o.Actor = "k7" }), 50,
				[]string{"audit_log by namespace_id seq"},
			},
			"action": {
				params(func(o *access.AuditParams) { o.Action = "job" }), 50,
				[]string{"audit_log by namespace_id seq"},
			},
			"time": {
				params(func(o *access.AuditParams) { o.From, o.To = now.Add(-2*time.Hour), now.Add(-time.Hour) }), 50,
				[]string{"audit_log by namespace_id", "audit_log by namespace_id seq"},
			},
		} {
			sent := r.during(func() {
				page, err := b.store.Audit(t.Context(), c.params)
				require.NoError(t, err)
				require.Len(t, page.Entries, c.found, name)
			})
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				require.Subset(t, c.ways, slices.DeleteFunc(b.explain(sent, mode), func(way string) bool {
					return way == "sort of audit_log" // of what was read, which is limited
				}), "%s, %s, %s", name, statistics, mode)
			}
		}
		b.exec(`ANALYZE audit_log`)
	}

	// A filter that matches an old entry only: the first page is empty, and says where to go on.
	b.exec(`UPDATE audit_log SET action = 'rare' WHERE seq = 3`)
	rare := params(func(o *access.AuditParams) { o.Action = "rare" })
	page, err := b.store.Audit(t.Context(), rare)
	require.NoError(t, err)
	require.Empty(t, page.Entries)
	require.EqualValues(t, 10_001, page.Next)
	rare.Before = page.Next
	page, err = b.store.Audit(t.Context(), rare)
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.Zero(t, page.Next)
}

// TestLiveCountsAreBounded: they read the runs of a queue by its index, from the oldest on.
func TestLiveCountsAreBounded(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(2000)
	sent := r.during(func() {
		_, err := b.store.CountLive(t.Context())
		require.NoError(t, err)
		_, err = b.store.Cluster(t.Context())
		require.NoError(t, err)
	})
	for _, statistics := range []string{"never analysed", "analysed"} {
		require.Equal(t, []string{"cursor by partition plan_at", "run by queue_id run_at"},
			slices.DeleteFunc(b.explain(sent, "force_generic_plan"), func(way string) bool {
				return strings.HasPrefix(way, "sort") || !strings.Contains(way, "run") && !strings.Contains(way, "cursor")
			}), statistics)
		b.exec(`ANALYZE cursor`)
	}
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, ` + bulkNamespace + `, 'default')
		ON CONFLICT DO NOTHING`)
	_, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
		Namespace: access.DefaultNamespace, Queue: "default", Name: "w", TTL: time.Minute,
	})
	require.NoError(t, err)
	sent = r.during(func() {
		found, err := b.store.WorkerSessions(t.Context(), access.DefaultNamespace, "default", job.WorkerMark{}, 10)
		require.NoError(t, err)
		require.Len(t, found, 1)
		_, err = b.store.QueueLoad(t.Context(), access.DefaultNamespace, 1)
		require.NoError(t, err)
	})
	require.Equal(t, []string{
		"queue", "run by queue_id", "run by queue_id run_at", "session", "stat_minute by namespace_id queue_id minute",
	},
		slices.DeleteFunc(b.explain(sent, "force_generic_plan"), func(way string) bool {
			return strings.HasPrefix(way, "sort") // of what was read, which is limited
		}))
}
