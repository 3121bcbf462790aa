package postgres

// The columns of an entry: of a live run r, and of an ended run h in history. selectEntries looks names up only for
// the entries of the page.
const (
	liveEntry = `
r.partition, r.job_id, r.due_at, r.seq, r.version, r.run_at, r.claimed_at AS started_at,
@far::timestamptz AS ended_at, r.expires_at, r.state, 0::smallint AS ended, r.attempt, r.origin, 0::smallint AS status,
r.session_id, r.queue_id, NULL::timestamptz AS due_to, NULL::bigint AS count, NULL::text AS reason,
CASE WHEN r.state = 0 /* pending */ THEN r.deferred_reason END AS message, r.attempts, r.idempotency_key, r.handler,
r.percent, r.progress, NULL::text AS result, r.trace`
	endedEntry = `
h.partition, h.job_id, h.due_at, h.seq, h.version, h.run_at, h.started_at,
h.ended_at, NULL::timestamptz AS expires_at, 0::smallint AS state, h.ended, h.attempt, h.origin, h.status,
h.session_id, h.queue_id, h.due_to, h.count, h.reason, h.message, h.attempts, h.idempotency_key, NULL::text AS handler,
NULL::smallint AS percent, NULL::text AS progress, h.result, h.trace`
	selectEntries = `
SELECT x.partition, x.job_id, x.due_at, x.seq, x.version, x.run_at, x.started_at, x.ended_at, x.expires_at, x.state,
       x.ended, x.attempt, x.origin, x.status, x.session_id, x.due_to, x.count, x.reason, x.message, x.attempts,
       x.idempotency_key, x.handler, x.percent, x.progress, x.result, x.trace, now(),
       (SELECT j.name FROM job j WHERE j.partition = x.partition AND j.id = x.job_id),
       (SELECT q.name FROM queue q WHERE q.id = x.queue_id),
       (SELECT s.name FROM session s WHERE s.id = x.session_id),
       (SELECT s.queue_id IS NOT NULL FROM session s WHERE s.id = x.session_id),
       x.ended = 2 /* failed */ AND EXISTS (
           SELECT FROM dead_letter d
           WHERE d.partition = x.partition AND d.job_id = x.job_id AND d.due_at = x.due_at AND d.seq = x.seq)
FROM (`
)

const (
	wantLive = `(r.state <> 0 /* live */ AND r.state = ANY (@live)
           OR r.state = 0 /* pending */ AND (
               @pending AND r.run_at > now() AND r.attempt = 0
               OR @retrying AND r.run_at > now() AND r.attempt > 0 AND r.deferred_from IS NULL
               OR @due AND (r.run_at <= now() OR r.deferred_from IS NOT NULL)))
      AND (@queue = 0 OR r.queue_id = @queue) AND r.due_at >= @due_from AND r.due_at < @due_before`
	wantEnded = `(@reason = '' OR h.reason = ANY (string_to_array(@reason, ','))) AND (@queue = 0 OR h.queue_id = @queue)
      AND h.due_at >= @due_from AND h.due_at < @due_before
      AND h.ended_at >= @ended_from AND h.ended_at < @ended_before`
)

func windowedHistory(sql string) string { return windowed(sql, endedEntry, "run_history", "h") }

// runsOfJob reads windows of due times of one job, live and ended runs together.
var runsOfJob = selectEntries + windowedHistory(`
        (SELECT `+liveEntry+`
         FROM run r
         WHERE r.partition = @partition AND r.job_id = @job AND NOT t.up
           AND r.due_at >= w.from_at AND r.due_at < w.to_at
           AND (r.due_at, r.seq, @far::timestamptz) < (@after_due, @after_seq, @after_ended) AND `+wantLive+`
         ORDER BY r.due_at DESC, r.seq DESC LIMIT @limit)
        UNION ALL
        (SELECT `+endedEntry+`
         FROM run_history h
         WHERE h.job_id = @job AND NOT t.up AND h.due_at >= w.from_at AND h.due_at < w.to_at
           AND (h.due_at, h.seq, h.ended_at) < (@after_due, @after_seq, @after_ended)
           AND h.ended = ANY (@ended) AND `+wantEnded+`
         ORDER BY h.due_at DESC, h.seq DESC, h.ended_at DESC LIMIT @limit)
        ORDER BY due_at DESC, seq DESC, ended_at DESC LIMIT @limit`) + `) x
ORDER BY x.due_at DESC, x.seq DESC, x.ended_at DESC`

const inWindow = `NOT t.up AND h.ended_at >= w.from_at AND h.ended_at < w.to_at
      AND (h.ended_at, h.job_id, h.due_at, h.seq) < (@after_ended, @after_job, @after_due, @after_seq)
      AND ` + wantEnded + `
    ORDER BY h.ended_at DESC, h.job_id DESC, h.due_at DESC, h.seq DESC LIMIT @limit`

// runsEnded reads windows of the ends of all runs. The time of the end has a BRIN index only, so the plan has to be a
// bitmap scan.
var runsEnded = selectEntries + windowedHistory(`
    SELECT `+endedEntry+`
    FROM run_history h
    WHERE h.ended = ANY (@ended) AND `+inWindow) + `) x
ORDER BY x.ended_at DESC, x.job_id DESC, x.due_at DESC, x.seq DESC`

// runsUnsuccessful is runsEnded for runs that did not succeed. They are few and have an index by queue and how they
// ended. For one value of each the index returns rows in order, so no more rows are read than shown.
var runsUnsuccessful = selectEntries + windowedHistory(`
    SELECT h.* FROM queue q, unnest(@ended::smallint[]) AS how, LATERAL (
        SELECT `+endedEntry+`
        FROM run_history h
        WHERE h.queue_id = q.id AND h.ended = how AND h.ended <> 1 /* succeeded */ AND `+inWindow+`) h
    WHERE q.namespace_id = belfry_namespace() AND (@queue = 0 OR q.id = @queue)
    ORDER BY h.ended_at DESC, h.job_id DESC, h.due_at DESC, h.seq DESC LIMIT @limit`) + `) x
ORDER BY x.ended_at DESC, x.job_id DESC, x.due_at DESC, x.seq DESC`

// runsLive reads the live runs of each queue, by the time at which they may start: those that are due or in progress,
// those that wait for another attempt, and, if they are asked for, those that are planned for later.
const runsLive = selectEntries + `
    SELECT u.* FROM queue q, LATERAL (
        (SELECT ` + liveEntry + ` FROM run r
         WHERE r.queue_id::bigint = q.id AND r.run_at <= now() + interval '1 s' AND ` + afterLive + `)
        UNION ALL
        (SELECT ` + liveEntry + ` FROM run r
         WHERE r.queue_id = q.id AND r.run_at > now() + interval '1 s' AND ` + triedBefore + ` AND (@retrying OR @due)
           AND ` + afterLive + `)
        UNION ALL
        (SELECT ` + liveEntry + ` FROM run r
         WHERE r.queue_id::bigint = q.id AND r.run_at > now() + interval '1 s' AND NOT ` + triedBefore + ` AND @pending
           AND ` + afterLive + `)) u
    WHERE q.namespace_id = belfry_namespace() AND (@queue = 0 OR q.id = @queue)
    ORDER BY u.run_at, u.partition, u.job_id, u.due_at, u.seq LIMIT @limit) x
ORDER BY x.run_at, x.partition, x.job_id, x.due_at, x.seq`

const afterLive = wantLive + `
      AND (r.run_at, r.partition, r.job_id, r.due_at, r.seq)
          > (@after_run, @after_part, @after_job, @after_due, @after_seq)
    ORDER BY r.run_at, r.partition, r.job_id, r.due_at, r.seq LIMIT @limit`

// historyFrom is the first day of history that is still there. Its tables are named by their day.
const historyFrom = `coalesce((
           SELECT min(to_timestamp(right(c.relname, 8) || '+00', 'YYYYMMDDTZH'))
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
           WHERE i.inhparent = 'run_history'::regclass), now())`

// oldestHistory reads the clock, where the oldest run may be, and the id of the queue.
const oldestHistory = `
SELECT now(), ` + historyFrom + `,
       CASE WHEN @name = '' THEN 0
            ELSE (SELECT id FROM queue WHERE namespace_id = @namespace AND name = @name) END`
