package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// A list of live runs reads liveFirst partitions first, and up to liveMore times as many in each further step.
const (
	liveFirst = 4
	liveMore  = 4
)

// far is later than the end of any run. Live runs have it as their end.
var far = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// runList builds one page.
type runList struct {
	store *API
	query job.RunQuery
	args  pgx.NamedArgs
	sql   string
	now   time.Time
	mark  func(job.Entry) job.RunMark
	page  job.RunPage
}

// Runs lists entries of the ledger, in one of three ways:
//   - runs of one job, live and ended, by due time, newest first
//   - ended runs of all jobs, by the time of their end, newest first
//   - live runs of all jobs, in the order of their keys
//
// The work for a page is bounded: Runs goes back in time window by window until the page is full or its time is up.
func (a *API) Runs(ctx context.Context, q job.RunQuery) (job.RunPage, error) {
	l := &runList{store: a, query: q, args: pgx.NamedArgs{}}
	bottom, err := l.prepare(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		return job.RunPage{}, nil // a queue that does not exist has no runs
	case err != nil:
	case q.Job != uuid.Nil:
		err = l.ofJob(ctx)
	case len(l.args["ended"].([]int16)) > 0:
		err = l.ended(ctx, bottom)
	default:
		err = l.live(ctx)
	}
	if err != nil {
		return job.RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	return l.page, nil
}

// prepare reads the clock, finds the queue and turns the filters into arguments.
func (l *runList) prepare(ctx context.Context) (bottom time.Time, err error) {
	q := &l.query
	var queue *int32
	err = l.store.db.Query(ctx, pool.In(q.Namespace), func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&l.now, &bottom, &queue}, func() error { return nil })
		return err
	}, oldestHistory, pgx.NamedArgs{"name": q.Queue, "namespace": q.Namespace})
	if err != nil {
		return bottom, err
	}
	if queue == nil {
		return bottom, ErrNotFound
	}
	live, ended := []int16{}, []int16{}
	pending, retrying, due := false, false, false
	for _, state := range l.states() {
		switch state {
		case job.StatusPending:
			pending = true
		case job.StatusRetrying:
			retrying = true
		case job.StatusDue:
			due = true
		case job.StatusRunning:
			live = append(live, int16(job.Running))
		case job.StatusAccepted:
			live = append(live, int16(job.Waiting))
		default:
			for e := job.EndedSucceeded; e <= job.EndedSkipped; e++ {
				if job.EndedStatus(e) == state {
					ended = append(ended, int16(e))
				}
			}
		}
	}
	l.args = pgx.NamedArgs{
		"far": far, "live": live, "pending": pending, "retrying": retrying, "due": due, "ended": ended,
		"reason": string(q.Reason), "queue": *queue,
		"due_from": q.DueFrom, "due_before": orFar(q.DueBefore),
		"ended_from": q.EndedFrom, "ended_before": orFar(q.EndedBefore),
		"partition": job.PartitionOf(q.Job), "job": q.Job,
		"after_part": q.After.Key.Partition, "after_job": q.After.Key.Job, "after_due": q.After.Key.DueAt,
		"after_seq": q.After.Key.Seq, "after_ended": q.After.EndedAt,
	}
	return bottom, nil
}

var allStatuses = []job.RunStatus{
	job.StatusPending, job.StatusRetrying, job.StatusDue, job.StatusRunning, job.StatusAccepted,
	job.StatusSucceeded, job.StatusFailed, job.StatusCancelled, job.StatusSkipped,
}

// states returns the states that the filters allow. Live runs have neither an end nor a reason. Without a job, live
// runs are listed only if the caller names a live state.
func (l *runList) states() []job.RunStatus {
	q := &l.query
	out := slices.Clone(q.States)
	if len(out) == 0 {
		out = slices.Clone(allStatuses)
	}
	endedOnly := q.Reason != "" || !q.EndedFrom.IsZero() || !q.EndedBefore.IsZero() ||
		q.Job == uuid.Nil && len(q.States) == 0
	return slices.DeleteFunc(out, func(s job.RunStatus) bool {
		return endedOnly && s.Live() || q.Reason != "" && s == job.StatusSucceeded
	})
}

// The marks of the three lists, after an entry.
func markOfJob(e job.Entry) job.RunMark {
	return job.RunMark{At: e.DueAt.Add(instant), Key: e.Key, EndedAt: orFar(e.EndedAt)}
}

func markEnded(e job.Entry) job.RunMark {
	return job.RunMark{At: e.EndedAt.Add(instant), Key: e.Key, EndedAt: e.EndedAt}
}

func markLive(e job.Entry) job.RunMark { return job.RunMark{At: e.DueAt, Key: e.Key} }

func orFar(t time.Time) time.Time {
	if t.IsZero() {
		return far
	}
	return t
}

func (l *runList) ofJob(ctx context.Context) error {
	q := &l.query
	l.sql = runsOfJob
	l.mark = markOfJob
	w := walk{bottom: later(q.DueFrom, time.Unix(0, 0)), to: orFar(q.DueBefore), width: allTime}
	if len(q.States) > 0 || q.Reason != "" || q.Queue != "" || !q.EndedFrom.IsZero() || !q.EndedBefore.IsZero() {
		w.width = 24 * time.Hour // matching runs may be rare
	}
	if q.After.At.IsZero() {
		l.args["after_due"], l.args["after_seq"], l.args["after_ended"] = far, int16(0), far
	}
	return l.walk(ctx, w)
}

func (l *runList) ended(ctx context.Context, oldest time.Time) error {
	q := &l.query
	l.sql = runsEnded
	l.mark = markEnded
	w := walk{bottom: later(q.EndedFrom, oldest), to: orFar(q.EndedBefore), width: 10 * time.Second}
	if !slices.Contains(l.args["ended"].([]int16), int16(job.EndedSucceeded)) {
		l.sql, w.width = runsUnsuccessful, 24*time.Hour
	}
	if q.After.At.IsZero() {
		l.args["after_ended"] = far
	}
	return l.walk(ctx, w)
}

// walk reads window after window into the page.
func (l *runList) walk(ctx context.Context, w walk) error {
	if after := l.query.After; !after.At.IsZero() {
		w.from(after)
		if after.Key.Job == uuid.Nil { // all before At
			l.args["after_due"], l.args["after_seq"], l.args["after_ended"] = far, int16(0), far
		}
	}
	rest, err := w.back(ctx, l.now, func(from, to time.Time, bounded bool) (bool, error) {
		l.args["from"], l.args["to"] = from, to
		full, err := l.read(ctx, bounded)
		if full {
			l.page.Next.Width = earlier(to, l.now).Sub(from) // the next page begins with a window that was wide enough
		}
		return full, err
	})
	if rest != nil {
		l.page.Next = &job.RunMark{At: rest.to, Width: rest.width}
	}
	return err
}

// live reads the partitions in order, a few at first, and more at a time while that is fast. A single partition has no
// timeout, so that each page makes progress.
func (l *runList) live(ctx context.Context) error {
	l.sql = runsLive
	l.mark = markLive
	if l.query.After.At.IsZero() {
		l.args["after_part"] = int16(-1)
	}
	began, some := clock.Elapsed(), int16(liveFirst)
	for p := l.query.After.Key.Partition; p < job.Partitions; {
		started := clock.Elapsed()
		l.args["part_from"], l.args["part_to"] = p, min(p+some, job.Partitions)
		full, err := l.read(ctx, some > 1)
		if gaveUp(ctx, err) && some > 1 {
			some = max(some/liveMore, 1)
			continue
		}
		if err != nil || full {
			return err
		}
		p += some
		if p < job.Partitions && clock.Elapsed()-began > walkTime {
			l.page.Next = &job.RunMark{At: l.now, Key: job.Key{Partition: p, DueAt: time.Unix(0, 0)}}
			return nil
		}
		if clock.Elapsed()-started < windowAim {
			some = min(some*liveMore, job.Partitions)
		}
	}
	return nil
}

// read adds a window to the page and reports whether the page is full.
func (l *runList) read(ctx context.Context, bounded bool) (full bool, err error) {
	left := l.query.Limit - len(l.page.Entries)
	l.args["limit"] = left + 1
	entries, err := l.store.entries(ctx, listQuery{l.query.Namespace, bounded, l.sql == runsEnded}, l.sql, l.args)
	if err != nil {
		return false, err
	}
	more := len(entries) > left
	l.page.Entries = append(l.page.Entries, entries[:min(len(entries), left)]...)
	if more {
		next := l.mark(l.page.Entries[len(l.page.Entries)-1])
		l.page.Next = &next
	}
	return more, nil
}

// listQuery says how one statement of a list runs: in which namespace and, if bounded, cancelled by the server after
// windowTime.
type listQuery struct {
	namespace uuid.UUID
	bounded   bool
	bitmap    bool // if false, the plan must use the order of an index
}

// queryList runs one statement of a list.
func (a *API) queryList(
	ctx context.Context, l listQuery, read func(pgx.Rows) error, sql string, args pgx.NamedArgs,
) error {
	settings := []pool.Settings{pool.Lists}
	if !l.bitmap {
		settings = append(settings, pool.NoBitmaps)
	}
	if l.bounded {
		settings = append(settings, pool.Timeout(windowTime))
	}
	return a.db.Query(ctx, pool.In(l.namespace, settings...), read, sql, args)
}

func (a *API) entries(ctx context.Context, l listQuery, sql string, args pgx.NamedArgs) (out []job.Entry, err error) {
	err = a.queryList(ctx, l, func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, scanEntry)
		return err
	}, sql, args)
	return out, err
}

func scanEntry(row pgx.CollectableRow) (e job.Entry, err error) {
	var started, expires, dueTo *time.Time
	var state job.RunState
	var ended job.Ended
	var session *uuid.UUID
	var count *int64
	var reason, message, name, queue, node, ownKey, handler, progress, result, trace *string
	var attempts []byte
	var worker *bool
	var status int16
	var now time.Time
	err = row.Scan(
		&e.Partition, &e.Job, &e.DueAt, &e.Seq, &e.Version, &e.RunAt, &started, &e.EndedAt, &expires, &state, &ended,
		&e.Attempt, &e.Origin, &status, &session, &dueTo, &count, &reason, &message, &attempts, &ownKey, &handler,
		&e.Percent, &progress, &result, &trace, &now, &name, &queue, &node, &worker, &e.DeadLetter,
	)
	if err != nil {
		return e, err
	}
	e.DueAt, e.RunAt, e.EndedAt = e.DueAt.UTC(), e.RunAt.UTC(), e.EndedAt.UTC()
	e.StartedAt, e.ExpiresAt, e.DueTo = deref(started).UTC(), deref(expires).UTC(), deref(dueTo).UTC()
	e.Code, e.Reason, e.Message = int(status), job.Reason(text(reason)), text(message)
	e.JobName, e.Queue, e.Node = text(name), text(queue), text(node)
	e.Worker = worker != nil && *worker
	e.Handler, e.Progress, e.Result, e.Trace = text(handler), text(progress), text(result), text(trace)
	if own := text(ownKey); own != job.FormatRunID(e.Key) {
		e.OwnKey = own
	}
	if session != nil {
		e.Session = *session
	}
	if count != nil {
		e.Count = *count
	}
	if e.EndedAt.Equal(far) {
		e.EndedAt, e.Status = time.Time{}, job.LiveStatus(
			state, e.Attempt, e.RunAt, now, e.Message != "" && len(attempts) == 0)
	} else {
		e.Status = job.EndedStatus(ended)
	}
	e.Attempts, err = readAttempts(attempts)
	return e, err
}

func readAttempts(encoded []byte) ([]job.AttemptEnd, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	var records []attemptRecord
	if err := json.Unmarshal(encoded, &records); err != nil {
		return nil, fmt.Errorf("read the attempts of a run: %w", err)
	}
	out := make([]job.AttemptEnd, len(records))
	for i, r := range records {
		out[i] = job.AttemptEnd{
			Number: r.Attempt, StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(), Outcome: r.Outcome, Code: r.Status,
			Message: r.Message, Session: r.Session, Node: r.Node, Worker: r.Worker,
		}
	}
	return out, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
