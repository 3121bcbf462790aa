package finish

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// rescueAll is how often all partitions are searched even if no session has died. It covers unforeseen cases.
const rescueAll = time.Minute

// lastSearch remembers the last search of Rescue: the sessions that had not ended then and the partitions it searched.
// To find attempts of ended sessions Rescue has to read all runs of a partition and, while an old snapshot is open, all
// dead rows too. So it searches only when a session has ended, in partitions that are new to this node, and once per
// rescueAll.
type lastSearch struct {
	mu         sync.Mutex
	alive      map[uuid.UUID]bool
	partitions map[int16]bool
	all        time.Time // when all were searched, by the database's clock
	expired    bool      // there are more runs whose deadline has passed
}

// scope returns which of the partitions have to be searched.
func (w *lastSearch) scope(v liveness, partitions []int16) (search []int16, all bool) {
	for id := range w.alive {
		if !v.alive[id] {
			return partitions, true
		}
	}
	if since := v.now.Sub(w.all); since < 0 || since > rescueAll {
		return partitions, true
	}
	for _, p := range partitions {
		if !w.partitions[p] {
			search = append(search, p)
		}
	}
	return search, false
}

// recordSearch notes that the partitions were searched as scope demanded.
func (w *lastSearch) recordSearch(v liveness, partitions []int16, all bool) {
	w.alive, w.partitions = v.alive, make(map[int16]bool, len(partitions))
	for _, p := range partitions {
		w.partitions[p] = true
	}
	if all {
		w.all = v.now
	}
}

// liveness is which sessions of nodes have not ended at an instant, and which accepted runs are overdue.
type liveness struct {
	now     time.Time
	alive   map[uuid.UUID]bool
	overdue []job.Completion
}

var (
	rescueOverdue = statement("rescue_overdue")
	rescueLost    = statement("rescue_lost")
	rescueExpired = statement("rescue_expired")
)

// endNodes ends the sessions of nodes that have expired: only what has ended is rescued. Sessions of workers have a
// queue. A session whose row is locked is being renewed.
const endNodes = `
UPDATE session SET expires_at = '-infinity' WHERE id = ANY (ARRAY(
    SELECT id FROM session s WHERE queue_id IS NULL AND ` + store.Expired + ` FOR UPDATE SKIP LOCKED))`

// resetAhead corrects sessions that were renewed by a clock that was ahead. If their process has died since, they would
// live until that time comes.
const resetAhead = `
UPDATE session SET renewed_at = now(), expires_at = now() + (expires_at - renewed_at), alive = belfry_alive()
WHERE id = ANY (ARRAY(
    SELECT id FROM session
    WHERE renewed_at > now() + interval '30 s' AND expires_at > '-infinity' AND belfry_clock_trusted()
    FOR UPDATE SKIP LOCKED))`

const aliveNodes = `SELECT now(), ARRAY(SELECT id FROM session WHERE expires_at > '-infinity' AND queue_id IS NULL)`

// Rescue ends the sessions of nodes that have expired, and the attempts that no process will report on, as Decide
// says. It returns the runs to retry, and how many attempts it found. When it searches all partitions, it also ends runs
// for workers whose deadline has passed.
func (s *Store) Rescue(ctx context.Context, partitions []int16, limit int) (retries []job.Run, found int, err error) {
	w := &s.lastSearch
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.all.Add(-rescueAll)
	v, err := s.readLiveness(ctx, partitions, from, limit)
	if err != nil {
		return nil, 0, err
	}
	search, all := w.scope(v, partitions)
	lost := v.overdue
	if len(search) > 0 && len(lost) < limit {
		more, err := s.lost(ctx, search, from, limit-len(lost))
		if err != nil {
			return nil, 0, err
		}
		lost = append(lost, more...)
	}
	retries, _, err = s.CompleteDecided(ctx, lost)
	var expired int
	if err == nil && (all || w.expired) {
		expired, err = s.endExpired(ctx, partitions, limit)
		w.expired = expired == limit
	}
	if err == nil && len(lost) < limit {
		w.recordSearch(v, partitions, all)
	}
	return retries, len(lost), err
}

// endExpired ends runs for workers that have not started and whose deadline has passed, as start.Decide says. It returns
// how many it found.
func (s *Store) endExpired(ctx context.Context, partitions []int16, limit int) (found int, err error) {
	err = s.db.Tx(ctx, "end expired runs", func(tx pgx.Tx) error {
		found = 0
		if _, err := tx.Exec(ctx, store.Apply(store.KeyLookups)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, rescueExpired, partitions, limit)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		var k job.Key
		var queue int32
		var origin job.Origin
		var deadline time.Duration
		var now time.Time
		_, err = pgx.ForEachRow(rows, []any{
			&k.Partition, store.Raw(&k.Job), &k.DueAt, &k.Seq, &queue, &origin, &deadline, &now,
		}, func() error {
			found++
			policy := job.Policy{Deadline: job.Duration(deadline)}
			if at := policy.Expires(origin, k.DueAt); !at.IsZero() && now.After(at) {
				Ending{k, queue, now, job.EndedSkipped, job.ReasonExpired}.Add(tx, &batch)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	return found, err
}

// readLiveness ends the sessions that have expired, and reads which have not and which runs are overdue since an
// instant.
func (s *Store) readLiveness(
	ctx context.Context, partitions []int16, from time.Time, limit int,
) (v liveness, err error) {
	v.alive = map[uuid.UUID]bool{}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(endNodes)
	batch.Queue(resetAhead)
	batch.Queue(aliveNodes).
		QueryRow(func(row pgx.Row) error {
			var ids []uuid.UUID
			err := row.Scan(&v.now, &ids)
			for _, id := range ids {
				v.alive[id] = true
			}
			return err
		})
	batch.Queue(rescueOverdue, partitions, from, limit).Query(func(rows pgx.Rows) (err error) {
		v.overdue, err = CollectLost(rows, "the target accepted the run and did not report in time")
		return err
	})
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return v, fmt.Errorf("find overdue runs: %w", err)
	}
	return v, nil
}

func (s *Store) lost(
	ctx context.Context, partitions []int16, from time.Time, limit int,
) (lost []job.Completion, err error) {
	var batch pgx.Batch
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(rescueLost, partitions, from, limit).Query(func(rows pgx.Rows) (err error) {
		lost, err = CollectLost(rows, "the node that worked on it died, or the target did not report")
		return err
	})
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("find lost runs: %w", err)
	}
	return lost, nil
}

// CollectLost reads attempts that no process will report on.
func CollectLost(rows pgx.Rows, message string) (lost []job.Completion, err error) {
	c := job.Completion{Outcome: job.Outcome{Kind: job.Lost, Message: message}}
	_, err = pgx.ForEachRow(
		rows,
		[]any{&c.Key.Partition, &c.Key.Job, &c.Key.DueAt, &c.Key.Seq, &c.Attempt, store.Raw(&c.Session)},
		func() error {
			lost = append(lost, c)
			return nil
		},
	)
	return lost, err
}
