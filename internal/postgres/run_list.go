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

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
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
//   - live runs of all jobs, by the time at which they may start, the oldest first
//
// The work for a page is bounded: see walk.
func (a *API) Runs(ctx context.Context, q job.RunQuery) (job.RunPage, error) {
	l := &runList{store: a, query: q, args: pgx.NamedArgs{}}
	oldest, err := l.prepare(ctx)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return job.RunPage{}, nil // a queue that does not exist has no runs
	case err != nil:
	case q.Job != uuid.Nil:
		err = l.ofJob(ctx, oldest)
	case len(l.args["ended"].([]int16)) > 0:
		err = l.ended(ctx, oldest)
	default:
		err = l.live(ctx)
	}
	if err != nil {
		return job.RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	return l.page, nil
}

// prepare reads the clock, finds the queue and turns the filters into arguments.
func (l *runList) prepare(ctx context.Context) (oldest time.Time, err error) {
	q := &l.query
	var queue *int32
	err = l.store.db.Query(ctx, store.In(q.Namespace), func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&l.now, &oldest, &queue}, func() error { return nil })
		return err
	}, oldestHistory, pgx.NamedArgs{"name": q.Queue, "namespace": q.Namespace})
	if err != nil {
		return oldest, err
	}
	if queue == nil {
		return oldest, job.ErrNotFound
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
		"after_seq": q.After.Key.Seq, "after_ended": q.After.EndedAt, "after_run": q.After.At, "limit": q.Limit + 1,
	}
	return oldest, nil
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
	return job.RunMark{At: e.DueAt.Add(store.Instant), Key: e.Key, EndedAt: orFar(e.EndedAt)}
}

func markEnded(e job.Entry) job.RunMark {
	return job.RunMark{At: e.EndedAt.Add(store.Instant), Key: e.Key, EndedAt: e.EndedAt}
}

func markLive(e job.Entry) job.RunMark { return job.RunMark{At: e.RunAt, Key: e.Key} }

func orFar(t time.Time) time.Time {
	if t.IsZero() {
		return far
	}
	return t
}

func (l *runList) ofJob(ctx context.Context, oldest time.Time) error {
	q := &l.query
	l.sql, l.mark = runsOfJob, markOfJob
	w := walk{bottom: store.Later(q.DueFrom, time.Unix(0, 0)), oldest: oldest, to: orFar(q.DueBefore), width: allTime}
	if len(q.States) > 0 || q.Reason != "" || q.Queue != "" || !q.EndedFrom.IsZero() || !q.EndedBefore.IsZero() {
		w.width = 24 * time.Hour // matching runs may be rare
	}
	return l.walk(ctx, w)
}

func (l *runList) ended(ctx context.Context, oldest time.Time) error {
	q := &l.query
	l.sql, l.mark = runsEnded, markEnded
	w := walk{bottom: store.Later(q.EndedFrom, oldest), to: orFar(q.EndedBefore), width: 10 * time.Second}
	if !slices.Contains(l.args["ended"].([]int16), int16(job.EndedSucceeded)) {
		l.sql, w.width = runsUnsuccessful, 24*time.Hour
	}
	return l.walk(ctx, w)
}

// walk reads a page of a list that goes back in time.
func (l *runList) walk(ctx context.Context, w walk) error {
	w.now = l.now
	after := l.query.After
	if !after.At.IsZero() {
		w.to = earlier(w.to, after.At)
	}
	if after.Key.Job == uuid.Nil { // all before At
		l.args["after_due"], l.args["after_seq"], l.args["after_ended"] = far, int16(0), far
	}
	return w.back(ctx, l.args, func() error { return l.read(ctx) })
}

func (l *runList) live(ctx context.Context) error {
	l.sql, l.mark = runsLive, markLive
	err := l.read(ctx)
	if store.GaveUp(ctx, err) {
		err = fmt.Errorf("%w: %w", job.ErrSlowList, err)
	}
	return err
}

// read reads the page.
func (l *runList) read(ctx context.Context) error {
	entries, err := l.store.entries(ctx, l.query.Namespace, l.sql == runsEnded, l.sql, l.args)
	if err != nil {
		return err
	}
	if rest := slices.IndexFunc(entries, func(e job.Entry) bool { return e.Partition == restPartition }); rest >= 0 {
		l.page.Next = &job.RunMark{At: entries[rest].RunAt}
		entries = slices.DeleteFunc(entries, func(e job.Entry) bool { return e.Partition == restPartition })
	}
	if len(entries) > l.query.Limit {
		entries = entries[:l.query.Limit]
		next := l.mark(entries[len(entries)-1])
		l.page.Next = &next
	}
	l.page.Entries = entries
	return nil
}

// listSettings are those of the statements of a list. The timeout is a last resort: see customPlans. If bitmap is false,
// the plan must use the order of an index.
func listSettings(bitmap bool) []store.Settings {
	settings := []store.Settings{store.Lists, store.Timeout("5s")}
	if !bitmap {
		settings = append(settings, store.NoBitmaps)
	}
	return settings
}

func (a *API) entries(
	ctx context.Context, namespace uuid.UUID, bitmap bool, sql string, args pgx.NamedArgs,
) (out []job.Entry, err error) {
	err = a.db.Query(ctx, store.In(namespace, listSettings(bitmap)...), func(rows pgx.Rows) error {
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
	e.StartedAt, e.ExpiresAt, e.DueTo = store.OrZero(started).UTC(), store.OrZero(expires).UTC(), store.OrZero(dueTo).UTC()
	e.Code, e.Reason, e.Message = int(status), job.Reason(store.OrZero(reason)), store.OrZero(message)
	e.JobName, e.Queue, e.Node = store.OrZero(name), store.OrZero(queue), store.OrZero(node)
	e.Worker = worker != nil && *worker
	e.Handler, e.Progress, e.Result, e.Trace = store.OrZero(handler), store.OrZero(progress), store.OrZero(result), store.OrZero(trace)
	e.OwnKey = store.OrZero(ownKey)
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
	var records []finish.AttemptRecord
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
