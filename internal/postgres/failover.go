package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

// server is what a renewal learns about the server.
type server struct {
	timeline    int64 // 0: unknown
	synchronous bool
	renewed     *time.Time // when the process renewed a session before, as this server knows it
}

// serverColumns are the columns of server. before is the session that the process renewed before. A commit with
// remote_write may be lost with the standby's machine.
const serverColumns = `belfry_timeline(), current_setting('synchronous_standby_names') <> ''
    AND current_setting('synchronous_commit') IN ('on', 'remote_apply'), (SELECT renewed_at FROM before)`

func (s *server) columns() []any { return []any{&s.timeline, &s.synchronous, &s.renewed} }

// lastRenewal is what a process remembers to notice that the database failed over and has forgotten something.
type lastRenewal struct {
	mu      sync.Mutex
	session uuid.UUID
	renewed time.Time
	server  server // as it is recorded in the database
	lost    bool   // and not recorded yet
}

func (l *lastRenewal) sessionID() uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// notice compares a renewal that was acknowledged with the one before. If this is another timeline, it records the
// failover. If it cannot, the next renewal retries. It fails on a primary of the past, which a pooler may lead to.
func (m *Members) notice(ctx context.Context, session uuid.UUID, now time.Time, s server) error {
	l := &m.last
	l.mu.Lock()
	defer l.mu.Unlock()
	switch before := l.server; {
	case s.timeline == 0:
		return nil
	case s.timeline < before.timeline:
		return fmt.Errorf("the server is on timeline %d and was replaced by one on timeline %d; point the pooler at the new "+
			"primary, or restart this node if the database was restored", s.timeline, before.timeline)
	case s.timeline > before.timeline && l.session != uuid.Nil && (s.renewed == nil || s.renewed.Before(l.renewed)):
		l.lost = true
	}
	l.session, l.renewed = session, now
	switch {
	case s.timeline > l.server.timeline:
		f, first, err := m.recordFailover(ctx, s)
		if err != nil {
			return fmt.Errorf("record a failover: %w", err)
		}
		if f != nil && m.OnFailover != nil && (first || l.server.timeline != 0) {
			m.OnFailover(*f)
		}
	case s.synchronous != l.server.synchronous:
		if _, err := m.db.Exec(ctx, `UPDATE cluster SET synchronous = $1`, s.synchronous); err != nil {
			return fmt.Errorf("record the mode of replication: %w", err)
		}
	}
	l.server, l.lost = s, false
	return nil
}

// recordFailover records the timeline in the table cluster, and a failover if that is not the one there. It returns
// the failover that began this timeline, and whether it was not known before; nil: none is known. What this process
// knows of the old primary counts, because the new one may have lost that as well. A new failover replaces one to a
// timeline of the same number: timelines start at 1 again after pg_upgrade, or when a dump is restored.
func (m *Members) recordFailover(ctx context.Context, s server) (f *job.Failover, first bool, err error) {
	l := &m.last
	synchronous := l.server.timeline == 0 || l.server.synchronous
	err = m.db.Tx(ctx, "record a failover", func(tx pgx.Tx) error {
		f = &job.Failover{Timeline: s.timeline}
		err := tx.QueryRow(ctx, `SELECT timeline, synchronous FROM cluster FOR UPDATE`).Scan(&f.Before, &f.Synchronous)
		if err != nil {
			return err
		}
		if first = f.Before != 0 && f.Before != s.timeline; first {
			if _, err := tx.Exec(ctx, `
INSERT INTO failover (timeline, timeline_before, noticed_at, received_until, synchronous, lost)
VALUES ($1, $2, now(), coalesce(pg_last_xact_replay_timestamp(), $3), $4, false)
ON CONFLICT (timeline) DO UPDATE SET timeline_before = excluded.timeline_before, noticed_at = excluded.noticed_at,
    received_until = excluded.received_until, synchronous = excluded.synchronous, lost = excluded.lost`,
				s.timeline, f.Before, s.renewed, f.Synchronous); err != nil {
				return err
			}
		}
		const record = `UPDATE cluster SET timeline = $1, synchronous = $2`
		if _, err := tx.Exec(ctx, record, s.timeline, s.synchronous); err != nil {
			return err
		}
		var received *time.Time
		err = tx.QueryRow(ctx, `
UPDATE failover SET lost = lost OR $2, synchronous = synchronous AND $3,
    noticed_at = CASE WHEN $2 THEN greatest(noticed_at, now()) ELSE noticed_at END
WHERE timeline = $1
RETURNING timeline_before, noticed_at, received_until, synchronous, lost`,
			s.timeline, l.lost, synchronous).Scan(&f.Before, &f.Noticed, &received, &f.Synchronous, &f.Lost)
		if store.NoRows(err) {
			f = nil
			return nil
		}
		f.Received = store.OrZero(received)
		return err
	})
	return f, first, err
}

// Leased returns the attempts that are leased to a session of a node, as lost. It reads all live runs.
func (a *Admin) Leased(ctx context.Context, session uuid.UUID, limit int) (lost []job.Completion, err error) {
	rows, err := a.db.Query(ctx, `
SELECT partition, job_id, due_at, seq, attempt, session_id FROM run
WHERE state = 1 /* running */ AND session_id = $1 AND handler IS NULL
LIMIT $2`, session, limit)
	if err == nil {
		lost, err = finish.CollectLost(rows, "the database failed over and lost its completion")
	}
	if err != nil {
		return nil, fmt.Errorf("find forgotten runs: %w", err)
	}
	return lost, nil
}
