package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// register also removes up to a hundred sessions that ended long ago, so the table stays small without a loop for it.
// The session of an owner stays: it says how long its partitions were served.
const register = `
WITH ` + seen + `, before AS (SELECT renewed_at FROM session WHERE id = $5), gone AS (
    DELETE FROM session WHERE id = ANY (ARRAY(
        SELECT id FROM session
        WHERE expires_at = '-infinity' AND renewed_at < now() - interval '1 hour' AND queue_id IS NULL
          AND id NOT IN (SELECT owner FROM partition WHERE owner IS NOT NULL)
        LIMIT 100 FOR UPDATE SKIP LOCKED))
)
INSERT INTO session (id, name, started_at, renewed_at, expires_at, info)
SELECT $1, $2, now(), t, t + $3::interval, $4 FROM ` + servedTime + `
RETURNING ` + readSample + `, ` + serverColumns

// Register creates a session that expires after ttl, and returns the time of the database.
func (m *Members) Register(
	ctx context.Context, id uuid.UUID, name string, ttl time.Duration,
) (now clock.Sample, err error) {
	var s server
	row := m.db.QueryRow(ctx, register, id, name, ttl, m.node, m.last.sessionID())
	if now, err = scanSample(row, s.columns()...); err != nil {
		return now, fmt.Errorf("register session: %w", err)
	}
	return now, m.notice(ctx, id, now.Now, s)
}

// seen notes that a node is renewing its session, and counts the time in which nodes do: see expired. Each node does so
// at least once per second. If none did for longer, the database was down or slow, or its clock jumped. It also moves
// the mark of the clock, by up to clock.MaxStep, with the server that it was on: a failover that is shorter than that
// leaves no trace.
const seen = `seen AS (
    UPDATE cluster SET seen_at = now(), alive = alive + greatest(least(now() - seen_at, interval '1 s'), interval '0'),
        (trusted_at, trusted_system, trusted_timeline) = (
            SELECT CASE WHEN fresh THEN now() ELSE trusted_at END, CASE WHEN fresh THEN belfry_system() ELSE trusted_system END,
                   CASE WHEN fresh THEN belfry_timeline() ELSE trusted_timeline END
            FROM (SELECT trusted_at BETWEEN now() - interval '10 s' AND now() AS fresh) f)
    WHERE seen_at NOT BETWEEN now() - interval '0.5 s' AND now() + interval '0.5 s' /* write the row less often */
)`

// grace is job.MissedGrace.
const grace = `interval '10 s'`

// servedTime is the time of a renewal or a release. A clock that went back by so much that it is in doubt does not move
// it back: when the clock is right again, the time between would count as one in which no node served.
const servedTime = `(SELECT CASE WHEN belfry_clock_trusted() THEN now() ELSE greatest(now(), trusted_at) END AS t
    FROM cluster WHERE only_row) served`

const renew = `
WITH ` + seen + `, unserved AS (
    UPDATE partition SET missed_from = coalesce(missed_from, s.renewed_at), missed_until = now() - ` + grace + `
    FROM session s
    WHERE s.id = $1 AND s.renewed_at < now() - ` + grace + ` AND s.expires_at > '-infinity' AND owner = s.id
      AND belfry_clock_trusted()
), before AS MATERIALIZED (SELECT renewed_at FROM session WHERE id = $1)
UPDATE session SET renewed_at = t, expires_at = t + $2::interval, may_own = $3, slots = $4, slots_free = $5,
    alive = belfry_alive()
FROM ` + servedTime + `
WHERE id = $1 AND expires_at > '-infinity'
RETURNING ` + readSample + `, ` + serverColumns

// Renew moves the expiry of a session that has not ended, even if it has expired, and stores whether it may own
// partitions. A session that has ended stays dead, because its runs may have been rescued already. If the last renewal
// was long ago, no node served the session's partitions meanwhile.
func (m *Members) Renew(ctx context.Context, id uuid.UUID, ttl time.Duration, owns bool) (now clock.Sample, err error) {
	var s server
	slots, free := m.slots()
	now, err = scanSample(m.db.QueryRow(ctx, renew, id, ttl, owns, slots, free), s.columns()...)
	switch {
	case err == nil:
		err = m.notice(ctx, id, now.Now, s)
		// Runs start by this time. now() is from before the commit, which may wait for a disk or a standby.
		var after time.Time
		if m.db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&after) == nil {
			now.Now = after.UTC()
		}
		return now, err
	case store.NoRows(err):
		return now, job.ErrSessionExpired
	default:
		return now, fmt.Errorf("renew session: %w", err)
	}
}

// slots returns what the node reports about its slots; nil: nothing.
func (m *Members) slots() (all, free *int) {
	if m.Slots == nil {
		return nil, nil
	}
	n, left := m.Slots()
	return &n, &left
}

// survey is one statement, so it sees one instant: all arrays come from one snapshot and have the same order.
const survey = `
WITH live AS MATERIALIZED (
    SELECT * FROM session WHERE expires_at > now() AND queue_id IS NULL /* nodes, not workers */
)
SELECT now(),
       ARRAY(SELECT id FROM live ORDER BY id), ARRAY(SELECT expires_at FROM live ORDER BY id),
       ARRAY(SELECT may_own FROM live ORDER BY id), ARRAY(SELECT coalesce(info ->> 'kinds', '[]') FROM live ORDER BY id),
       ARRAY(SELECT id FROM partition ORDER BY id), ARRAY(SELECT epoch FROM partition ORDER BY id),
       ARRAY(SELECT coalesce(owner, '00000000-0000-0000-0000-000000000000') FROM partition ORDER BY id),
       coalesce((SELECT jsonb_object_agg(id, needs) FROM partition WHERE needs <> '{}'), '{}')`

// Survey returns the nodes that are alive and the owner of each partition.
func (m *Members) Survey(ctx context.Context) (job.Survey, error) {
	var now time.Time
	var sessions, owners []uuid.UUID
	var expiresAt []time.Time
	var owns []bool
	var partitions []int16
	var epochs []int64
	var kinds []string // of each session, as JSON
	var needs map[int16][]string
	err := m.db.QueryRow(ctx, survey).
		Scan(&now, &sessions, &expiresAt, &owns, &kinds, &partitions, &epochs, &owners, &needs)
	if err != nil {
		return job.Survey{}, fmt.Errorf("survey: %w", err)
	}
	out := job.Survey{
		Now:        now,
		Sessions:   make([]job.Session, len(sessions)),
		Ownerships: make([]job.Ownership, len(partitions)),
		Needs:      needs,
	}
	for i, id := range sessions {
		out.Sessions[i] = job.Session{ID: id, ExpiresAt: expiresAt[i], Owns: owns[i]}
		if err := json.Unmarshal([]byte(kinds[i]), &out.Sessions[i].Kinds); err != nil {
			return job.Survey{}, fmt.Errorf("survey: kinds of session %s: %w", id, err)
		}
	}
	for i, p := range partitions {
		out.Ownerships[i] = job.Ownership{Partition: p, Owner: owners[i], Epoch: epochs[i]}
	}
	return out, nil
}

// Ownerships lists the owner of each partition.
func (m *Members) Ownerships(ctx context.Context) ([]job.Ownership, error) {
	rows, err := m.db.Query(
		ctx, `SELECT id, coalesce(owner, '00000000-0000-0000-0000-000000000000'), epoch FROM partition ORDER BY id`,
	)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o job.Ownership, err error) {
		err = row.Scan(&o.Partition, &o.Owner, &o.Epoch)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return out, nil
}

// ownerGone is a condition on partition p: its owner is dead, and session $4 is alive and may own partitions.
const ownerGone = `NOT EXISTS (SELECT FROM session WHERE id = p.owner AND expires_at > now())
  AND EXISTS (SELECT FROM session WHERE id = $4 AND expires_at > clock_timestamp() AND may_own)`

// notServed notes since when no node served partition p.
const notServed = `(missed_from, missed_until) = (` + gapTime + `)`

// gapTime is the time in which no node served partition p, if a node begins to serve it now or already does: what
// was noted before, extended if the last service is longer ago than the grace. A partition that never had an owner has
// missed nothing. A clock that is in doubt measures nothing: see missedSince.
const gapTime = `
    SELECT CASE WHEN missed THEN coalesce(p.missed_from, served) ELSE p.missed_from END,
           CASE WHEN missed THEN now() - ` + grace + ` ELSE p.missed_until END
    FROM (SELECT served, served < now() - ` + grace + ` AND belfry_clock_trusted() AS missed
          FROM (SELECT coalesce((SELECT renewed_at FROM session WHERE id = p.owner), p.served_until) AS served) s) m`

// Take makes a session the owner of partitions, if it is alive and may own any. It takes only partitions whose owner
// and epoch are still as in from and whose owner is no longer alive, and returns those.
func (m *Members) Take(ctx context.Context, me uuid.UUID, from []job.Ownership) ([]job.Ownership, error) {
	for {
		if err := m.endTransactions(ctx, from); err != nil {
			return nil, err
		}
		taken, err := m.changeOwner(ctx, "take partitions", me, from, ownerChange{notServed, ownerGone})
		if store.Code(err) != store.LockNotAvailable { // otherwise a claim that was under way may be stuck by now
			return taken, err
		}
	}
}

// stuckTransactions are the processes of the server that wait for the client of a transaction of a dead session: $1
// sessions, $2 their locks, $3 the names of their connections. A transaction that keeps the session's lock delays the
// takeover. The others keep locks that the new owner needs: those of cursors and queues.
const stuckTransactions = `
SELECT pg_terminate_backend(a.pid)
FROM (SELECT unnest($1::uuid[]) AS session, unnest($2::bigint[]) AS lock, unnest($3::text[]) AS application) d,
     pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
  AND a.wait_event_type = 'Client' AND a.xact_start < now() - interval '1 s'
  AND NOT EXISTS (SELECT FROM session WHERE id = d.session AND expires_at > now())
  AND (a.application_name = d.application OR a.pid IN (
      SELECT pid FROM pg_locks
      WHERE locktype = 'advisory' AND database = a.datid AND objsubid = 1 AND mode = 'ShareLock' AND granted
        AND classid::bigint << 32 | objid::bigint = d.lock))`

// endTransactions ends the transactions that dead owners left. A node that stopped reading inside one, because it is
// frozen or the network is cut, would otherwise keep its locks until TCP gives up. PostgreSQL shows and ends those of the
// same login.
func (m *Members) endTransactions(ctx context.Context, from []job.Ownership) error {
	var owners []uuid.UUID
	var locks []int64
	var applications []string
	for _, o := range from {
		if o.Owner != uuid.Nil && !slices.Contains(owners, o.Owner) {
			owners, locks = append(owners, o.Owner), append(locks, store.SessionLock(o.Owner))
			applications = append(applications, job.ProcessOf(o.Owner).Application())
		}
	}
	if len(owners) == 0 {
		return nil
	}
	if _, err := m.db.Exec(ctx, stuckTransactions, owners, locks, applications); err != nil {
		return fmt.Errorf("end transactions of dead nodes: %w", err)
	}
	return nil
}

// Release gives up partitions of a session, so that another session may take them.
func (m *Members) Release(ctx context.Context, me uuid.UUID, from []job.Ownership) error {
	mine := slices.Clone(from)
	for i := range mine {
		mine[i].Owner = me
	}
	_, err := m.changeOwner(ctx, "release partitions", uuid.Nil, mine, ownerChange{released, `true`})
	return err
}

const released = `served_until = (SELECT t FROM ` + servedTime + `)`

// ownerChange is what a change of the owner of partition p also sets, and its condition.
type ownerChange struct{ set, condition string }

// changeOwner sets the owner of partitions that still have the owner and epoch of from (compare-and-set). It fails with
// lockNotAvailable if a claim of an old owner takes longer than a second.
func (m *Members) changeOwner(
	ctx context.Context, what string, to uuid.UUID, from []job.Ownership, change ownerChange,
) (taken []job.Ownership, err error) {
	if len(from) == 0 {
		return nil, nil
	}
	ids, owners, epochs := make([]int16, len(from)), make([]uuid.UUID, len(from)), make([]int64, len(from))
	locks := map[int64]bool{}
	for i, o := range from {
		ids[i], owners[i], epochs[i] = o.Partition, o.Owner, o.Epoch
		locks[store.SessionLock(o.Owner)] = true
	}
	err = m.db.Tx(ctx, what, func(tx pgx.Tx) error {
		// Wait until no claim of the old owners is under way.
		var batch pgx.Batch
		batch.Queue(`SELECT set_config('lock_timeout', '1s', true)`)
		batch.Queue(lockEach, lockList(locks))
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		// No owner that has expired is renewed until this transaction ends, and the next statement sees earlier renewals.
		if _, err := tx.Exec(ctx, `SELECT FROM session WHERE id = ANY ($1) FOR SHARE`, owners); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
UPDATE partition p SET owner = nullif($4::uuid, '00000000-0000-0000-0000-000000000000'), epoch = p.epoch + 1,
    `+change.set+`
FROM (SELECT unnest($1::smallint[]) AS id, unnest($2::uuid[]) AS owner, unnest($3::bigint[]) AS epoch) f
WHERE p.id = f.id AND coalesce(p.owner, '00000000-0000-0000-0000-000000000000') = f.owner AND p.epoch = f.epoch
  AND `+change.condition+`
RETURNING p.id, p.epoch`, ids, owners, epochs, to)
		if err != nil {
			return err
		}
		taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o job.Ownership, err error) {
			o.Owner = to
			err = row.Scan(&o.Partition, &o.Epoch)
			return o, err
		})
		return err
	})
	return taken, err
}

// lockEach takes locks in their order, so that two transactions never wait for each other.
const lockEach = `
SELECT pg_advisory_xact_lock(l) FROM (SELECT DISTINCT l FROM unnest($1::bigint[]) l ORDER BY l) o`

func lockList(set map[int64]bool) []int64 {
	out := make([]int64, 0, len(set))
	for l := range set {
		out = append(out, l)
	}
	return out
}

// Unregister ends a session now. A session that is not registered yet cannot be registered any more: the request may
// still be on its way.
func (m *Members) Unregister(ctx context.Context, id uuid.UUID) error {
	const unregister = `INSERT INTO session (id, name, started_at, expires_at) VALUES ($1, '', now(), '-infinity')
		ON CONFLICT (id) DO UPDATE SET expires_at = '-infinity'`
	if _, err := m.db.Exec(ctx, unregister, id); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}
