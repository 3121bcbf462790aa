package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestNeighbours: one namespace has runs every second, and another one attacks the nodes, in one way after the other.
// It prints how late the runs of the first are, alone and during each attack. The short form does not judge that, because
// it runs together with other tests. No run may be lost, and the attacker must not have all slots of a node.
func TestNeighbours(t *testing.T) {
	long := number("NEIGHBOURS", 0) > 0
	if !long {
		t.Parallel()
	}
	slots := number("SLOTS", 60)
	c := newCluster(t, setup{nodes: 3, api: true, slow: immediately, env: []string{
		fmt.Sprintf("BELFRY_SLOTS=%d", slots), "BELFRY_TARGETS_KINDS=http,worker,nats",
	}})
	phase := time.Duration(number("SECONDS", 2)) * time.Second
	a := newAttacker(t, c, phase+phase/5)
	attacks := []struct {
		name  string
		begin func() (stop func())
	}{
		{"alone", func() func() { return func() {} }},
		{fmt.Sprintf("%d silent hosts", number("HOSTS", 100)), a.silentHosts},
		{fmt.Sprintf("%d runs/s, never confirmed", number("UNCONFIRMED", 100)), a.unconfirmed},
		{fmt.Sprintf("%d broker settings", number("SETTINGS", 50)), a.settings},
		{fmt.Sprintf("%d keys, %d long polls each", number("KEYS", 5), number("POLLS", 10)), a.longPolls},
		{fmt.Sprintf("%d idle connections", number("IDLE", 200)), a.idle},
		{fmt.Sprintf("%d trickled bodies", number("BODIES", 20)), a.bodies},
		{fmt.Sprintf("%d runs due at once", number("FLOOD", 500)), a.flood},
		{"alone again", func() func() { return func() {} }},
	}
	c.create(number("JOBS", 20), time.Hour)
	began := c.now()
	c.awaitEnded(began.Add(3*time.Second), time.Minute)
	var alone figures
	only := regexp.MustCompile(cmp.Or(os.Getenv("ATTACK"), ".*"))
	t.Logf("%-32s %8s %10s %10s %12s %12s", "attack", "runs", "p50", "p99", "ratio of p99", "slots taken")
	for _, attack := range attacks {
		if !only.MatchString(attack.name) {
			continue
		}
		stop := attack.begin()
		<-time.After(phase / 10) // until it has taken what it can
		from := c.now()
		<-time.After(phase)
		to := c.now()
		taken := a.taken(slots)
		c.awaitEnded(to, 5*time.Minute)
		late := c.endedAfter(from, to)
		if alone == nil {
			alone = late
		}
		t.Logf("%-32s %8d %10s %10s %12.2f %12d", attack.name, len(late),
			late.percentile(50).Round(time.Millisecond), late.percentile(99).Round(time.Millisecond),
			late.percentile(99).Seconds()/alone.percentile(99).Seconds(), taken)
		stop()
		a.clear()
	}
	until := c.now().Truncate(time.Second)
	c.awaitEnded(until, time.Minute)
	runs, lost := c.lost(until)
	t.Logf("%d runs, %d lost", runs, lost)
	require.Positive(t, runs)
	require.Zero(t, lost)
}

// victims are the ids of the jobs of the attacked namespace.
func (c *cluster) victims() (ids []uuid.UUID) {
	for _, j := range c.jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// awaitEnded waits until no run of the attacked namespace is left that is due before an instant.
func (c *cluster) awaitEnded(before time.Time, within time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	const query = `
SELECT clock_timestamp() > $2 AND NOT EXISTS (SELECT FROM run WHERE job_id = ANY ($1) AND due_at < $2)
       AND (SELECT count(*) FROM run_history WHERE job_id = ANY ($1) AND due_at >= $2::timestamptz - interval '1 second'
            AND due_at < $2) >= cardinality($1::uuid[])`
	require.NoError(c.t, until(ctx, func() (done bool) {
		require.NoError(c.t, c.pool.QueryRow(ctx, query, c.victims(), before).Scan(&done))
		return done
	}), "runs of the attacked namespace do not end")
}

// endedAfter is how long after their due time runs ended, by the clock of the database.
func (c *cluster) endedAfter(from, to time.Time) (out figures) {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), `
SELECT ended_at - due_at FROM run_history WHERE job_id = ANY ($1) AND due_at >= $2 AND due_at < $3 AND ended = 1`,
		c.victims(), from, to)
	require.NoError(c.t, err)
	defer rows.Close()
	for rows.Next() {
		var d time.Duration
		require.NoError(c.t, rows.Scan(&d))
		out = append(out, d)
	}
	require.NoError(c.t, rows.Err())
	return out
}

// lost compares the runs that were due before an instant with those that succeeded.
func (c *cluster) lost(before time.Time) (runs, lost int) {
	c.t.Helper()
	const query = `
SELECT coalesce(sum(expected), 0), coalesce(sum(expected - succeeded), 0)
FROM (SELECT extract(epoch FROM $2::timestamptz - min(due_at))::integer AS expected,
             count(*) FILTER (WHERE ended = 1) AS succeeded
      FROM run_history WHERE job_id = ANY ($1) AND due_at < $2 GROUP BY job_id) j`
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), query, c.victims(), before).Scan(&runs, &lost))
	return runs, lost
}

// taken is how many slots of a node the attacker has, on the node where it has most. If it has all, it waits until it
// has not: a claim takes all free slots for a moment, and deferred runs return them.
func (a *attacker) taken(slots int) (taken int) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	const query = `
SELECT coalesce(max(n), 0) FROM (
    SELECT count(*) AS n FROM run
    WHERE state = 1 AND job_id IN (SELECT id FROM job WHERE namespace_id = $1) GROUP BY session_id) s`
	require.NoError(a.t, until(ctx, func() bool {
		require.NoError(a.t, a.c.pool.QueryRow(ctx, query, a.namespace).Scan(&taken))
		return taken < slots
	}), "the attacker has all slots of a node")
	return taken
}

// anyDefinition is a job of the attacker, every second until an instant.
func anyDefinition(name, kind, config string, end time.Time) job.Definition {
	d := job.Definition{Name: name, Target: job.Target{Kind: kind, Config: []byte(config)}}
	d.Schedule.Every, d.Schedule.EndAt = "1s", end
	d.Policy = job.Policy{
		Overlap: job.OverlapAllow, Timeout: job.Duration(time.Hour), Retry: job.Retry{MaxAttempts: 3},
		Missed: job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(time.Hour), Max: 10_000},
	}
	return d
}
