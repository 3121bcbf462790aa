package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

// The columns of an entry without its strings, for views that show many: of a live run r, of an ended run h in history,
// and of a range s that a cursor skipped. Of the attempts before the last one they have the first, which says when the
// run began.
const (
	liveBrief = `r.job_id, r.due_at, r.seq, r.version, r.run_at, r.claimed_at AS started_at,
@far::timestamptz AS ended_at, r.state, 0::smallint AS ended, r.attempt, r.origin, NULL::timestamptz AS due_to,
NULL::bigint AS count, NULL::text AS reason, r.attempts -> 0 AS first, r.deferred_from IS NOT NULL AS undelivered`
	endedBrief = `h.job_id, h.due_at, h.seq, h.version, h.run_at, h.started_at,
h.ended_at, 0::smallint AS state, h.ended, h.attempt, h.origin, h.due_to,
h.count, h.reason, CASE WHEN h.attempt > 1 THEN h.attempts -> 0 END AS first, false AS undelivered`
	skipBrief = `s.from_due AS due_at, 0::smallint AS seq, 0 AS version, s.from_due AS run_at,
NULL::timestamptz AS started_at, s.created_at AS ended_at, 0::smallint AS state, 4::smallint /* skipped */ AS ended,
0::smallint AS attempt, 0::smallint AS origin, s.to_due AS due_to, s.count, s.reason, NULL::jsonb AS first,
false AS undelivered`
)

// briefRow reads the columns of a brief entry, in their order, and now().
type briefRow struct {
	e              job.Entry
	id             uuid.UUID
	started, dueTo *time.Time
	state          job.RunState
	ended          job.Ended
	count          *int64
	reason         *string
	first          []byte
	undelivered    bool
	now            time.Time
}

func (b *briefRow) into() []any {
	return []any{
		store.Raw(&b.id), &b.e.DueAt, &b.e.Seq, &b.e.Version, &b.e.RunAt, &b.started, &b.e.EndedAt, &b.state, &b.ended,
		&b.e.Attempt, &b.e.Origin, &b.dueTo, &b.count, &b.reason, &b.first, &b.undelivered,
		&b.now,
	}
}

// entry returns what was read.
func (b *briefRow) entry() (job.Entry, error) {
	e := b.e
	e.Job, e.Partition = b.id, job.PartitionOf(b.id)
	e.DueAt, e.RunAt, e.EndedAt = e.DueAt.UTC(), e.RunAt.UTC(), e.EndedAt.UTC()
	e.StartedAt, e.DueTo, e.Reason = store.OrZero(b.started).UTC(), store.OrZero(b.dueTo).UTC(), job.Reason(store.OrZero(b.reason))
	if b.count != nil {
		e.Count = *b.count
	}
	if e.EndedAt.Equal(far) {
		e.EndedAt, e.Status = time.Time{}, job.LiveStatus(b.state, e.Attempt, e.RunAt, b.now, b.undelivered)
	} else {
		e.Status = job.EndedStatus(b.ended)
	}
	if len(b.first) > 0 {
		var first finish.AttemptRecord
		if err := json.Unmarshal(b.first, &first); err != nil {
			return e, fmt.Errorf("read the first attempt of a run: %w", err)
		}
		e.Attempts = []job.AttemptEnd{{Number: first.Attempt, StartedAt: first.StartedAt.UTC()}}
	}
	return e, nil
}

// eachBrief passes the entries of rows on. The columns of into come before those of the entry.
func eachBrief(rows pgx.Rows, into []any, take func(job.Entry)) error {
	var b briefRow
	_, err := pgx.ForEachRow(rows, append(into, b.into()...), func() error {
		e, err := b.entry()
		take(e)
		return err
	})
	return err
}
