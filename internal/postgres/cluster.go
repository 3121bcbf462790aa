package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

const liveNodes = `
SELECT s.id, s.name, s.started_at, s.expires_at, s.may_own, coalesce(s.info ->> 'version', ''),
       coalesce(s.info ->> 'zones', ''), s.slots, s.slots_free, coalesce(s.info ->> 'keep_history', ''),
       coalesce(s.info ->> 'look_ahead', ''), coalesce(s.info ->> 'worker_ttl', '')
FROM session s
WHERE s.expires_at > now() AND s.queue_id IS NULL
ORDER BY s.started_at, s.id`

// partitionOwners also reads the first cursor of each partition. Nodes plan ahead of time, so a cursor whose time has
// passed is late.
const partitionOwners = `
SELECT p.id, CASE WHEN s.id IS NOT NULL THEN p.owner END, p.epoch,
       (SELECT plan_at FROM cursor c WHERE c.partition = p.id AND c.plan_at <= now() ORDER BY c.plan_at LIMIT 1)
FROM partition p LEFT JOIN session s ON s.id = p.owner AND s.expires_at > now()
ORDER BY p.id`

// partitionLag reads the oldest run of each partition that nothing keeps from starting: no worker has to ask for it, and
// no pause, limit, concurrency key or earlier run of its job holds it back.
const partitionLag = `
SELECT partition, min(oldest), bool_or(more) FROM (
    SELECT r.partition, min(r.run_at) FILTER (
               WHERE r.state = 0 /* pending */ AND r.run_at <= now() AND r.handler IS NULL
                 AND r.concurrency_key IS NULL AND r.admit & 2 = 0) AS oldest,
           sum(count(*) FILTER (WHERE r.run_at <= now() + interval '1 s')) OVER (PARTITION BY q.id) >= @runs AS more
    FROM ` + activeRuns + `
    WHERE NOT q.paused AND NOT q.limited
    GROUP BY q.id, r.partition) x
GROUP BY partition`

const clusterFacts = `
SELECT clock_timestamp(), NOT belfry_clock_trusted(), split_part(current_setting('server_version'), ' ', 1),
       coalesce((SELECT numbackends FROM pg_stat_database WHERE datname = current_database()), 0),
       current_setting('max_connections')::integer`

// Cluster returns the nodes that are alive, the owner of each partition, and how late it is. It may read
// many runs, so callers share the result.
func (a *Admin) Cluster(ctx context.Context) (c job.Cluster, err error) {
	err = withLimit(ctx, func(limit int) (err error) {
		c, err = a.readCluster(ctx, limit)
		return err
	})
	if err != nil {
		return c, fmt.Errorf("read the cluster: %w", err)
	}
	c.Schema, err = a.SchemaVersion(ctx)
	return c, err
}

func (a *Admin) readCluster(ctx context.Context, limit int) (c job.Cluster, err error) {
	c.Owners = make([]job.PartitionOwner, job.Partitions)
	batch := liveBatch()
	batch.Queue(liveNodes).Query(func(rows pgx.Rows) error {
		c.Nodes, err = pgx.CollectRows(rows, scanNode)
		return err
	})
	batch.Queue(partitionOwners).Query(func(rows pgx.Rows) error { return scanOwners(rows, &c) })
	batch.Queue(partitionLag, pgx.NamedArgs{"runs": limit}).Query(func(rows pgx.Rows) error {
		var partition int16
		var oldest *time.Time
		var more bool
		_, err := pgx.ForEachRow(rows, []any{&partition, &oldest, &more}, func() error {
			c.LagMore = c.LagMore || more
			c.Owners[partition].OldestDueAt = oldestOf(c.Owners[partition].OldestDueAt, oldest)
			return nil
		})
		return err
	})
	batch.Queue(clusterFacts).QueryRow(func(row pgx.Row) error {
		d := &c.Database
		return row.Scan(&c.Now, &c.ClockInDoubt, &d.Version, &d.Connections, &d.MaxConnections)
	})
	if err := a.db.SendBatch(ctx, batch).Close(); err != nil {
		return c, err
	}
	c.Now = c.Now.UTC()
	return c, nil
}

func scanNode(row pgx.CollectableRow) (n job.Node, err error) {
	err = row.Scan(
		&n.Session, &n.Name, &n.StartedAt, &n.ExpiresAt, &n.Owns, &n.Version, &n.ZoneRules, &n.Slots, &n.SlotsFree,
		&n.Settings.KeepHistory, &n.Settings.LookAhead, &n.Settings.WorkerTTL,
	)
	n.StartedAt, n.ExpiresAt = n.StartedAt.UTC(), n.ExpiresAt.UTC()
	return n, err
}

// scanOwners reads the partitions, after the nodes.
func scanOwners(rows pgx.Rows, c *job.Cluster) error {
	index := map[uuid.UUID]int{}
	for i, n := range c.Nodes {
		index[n.Session] = i
	}
	var partition int16
	var owner *uuid.UUID
	var epoch int64
	var late *time.Time
	_, err := pgx.ForEachRow(rows, []any{&partition, &owner, &epoch, &late}, func() error {
		o := &c.Owners[partition]
		o.Epoch, o.OldestDueAt = epoch, oldestOf(time.Time{}, late)
		if owner == nil {
			c.Unowned = append(c.Unowned, partition)
			return nil
		}
		o.Owner = *owner
		n := index[*owner]
		c.Nodes[n].Partitions = append(c.Nodes[n].Partitions, partition)
		return nil
	})
	return err
}

// oldestOf returns the earlier of two times, of which each may be absent.
func oldestOf(a time.Time, b *time.Time) time.Time {
	if b == nil || !a.IsZero() && a.Before(*b) {
		return a
	}
	return b.UTC()
}
