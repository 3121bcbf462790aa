package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/store"
)

// LedgerAudit audits the ledger page by page. No transaction lasts longer than a page.
type LedgerAudit struct {
	db     store.All
	times  *auditor.Times
	asked  auditor.Window
	floor  time.Time // the first due time that can be judged
	params auditor.Params
	after  jobKey                                                    // the last job of the page before
	size   int                                                       // of the next page, in jobs
	known  func(partition int16, id uuid.UUID) (auditor.Pass, error) // see AuditDay; nil: nothing is known
	passes map[uuid.UUID]auditor.Pass                                // what known returned for jobs of this page
}

// AuditLedger returns an audit, with the window cut to what can be judged: history is kept from some day on, and only due
// times that have passed are in the ledger.
func (a *Admin) AuditLedger(ctx context.Context, p auditor.Params) (*LedgerAudit, error) {
	return auditLedger(ctx, a.db, p)
}

func auditLedger(ctx context.Context, db store.All, p auditor.Params) (*LedgerAudit, error) {
	now, floor, err := auditFloor(ctx, db)
	if err != nil {
		return nil, err
	}
	if p.Window.To.IsZero() || p.Window.To.After(now) {
		p.Window.To = now
	}
	if p.Window.From.IsZero() {
		p.Window.From = p.Window.To.Add(-auditDay)
	}
	asked := p.Window
	if p.Window.From = store.Later(p.Window.From, floor); p.Window.From.After(p.Window.To) {
		p.Window.From = p.Window.To // nothing can be judged
	}
	return &LedgerAudit{
		db: db, times: auditor.NewTimes(p.Oracle), asked: asked, floor: floor, params: p, after: jobKey{partition: -1},
		size: auditPage, passes: map[uuid.UUID]auditor.Pass{},
	}, nil
}

// JobsNamed returns the jobs with a name, in all namespaces.
func (a *Admin) JobsNamed(ctx context.Context, name string) ([]uuid.UUID, error) {
	rows, err := a.db.Query(ctx, `SELECT id FROM job WHERE name = $1`, name)
	if err != nil {
		return nil, fmt.Errorf("find jobs by name: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find jobs by name: %w", err)
	}
	return ids, nil
}

// Asked returns the due times that were asked for and have passed.
func (a *LedgerAudit) Asked() auditor.Window { return a.asked }

// Floor returns the first due time that can be judged: older history is not kept.
func (a *LedgerAudit) Floor() time.Time { return a.floor }

// Window returns the due times that are judged.
func (a *LedgerAudit) Window() auditor.Window { return a.params.Window }

// auditFloor reads the clock and the first due time that can be judged.
func auditFloor(ctx context.Context, db store.All) (now, floor time.Time, err error) {
	var l ledger.Life
	if err := db.QueryRow(ctx, `SELECT now(), `+historyFrom).Scan(&l.Now, &l.HistoryFrom); err != nil {
		return now, floor, fmt.Errorf("read the start of history: %w", err)
	}
	return l.Now.UTC(), l.Complete().UTC(), nil
}

// raiseFloor reads the floor again, and cuts the window to it: history that was dropped is not missing. It reports
// whether the window has changed.
func (a *LedgerAudit) raiseFloor(ctx context.Context) (bool, error) {
	_, floor, err := auditFloor(ctx, a.db)
	if err != nil {
		return false, err
	}
	a.floor = store.Later(a.floor, floor)
	w := &a.params.Window
	before := w.From
	if a.floor.After(before.Add(time.Microsecond)) { // a day begins after the last instant of the day before
		w.From = a.floor
	}
	if w.From.After(w.To) {
		w.From = w.To
	}
	return w.From.After(before), nil
}

// The sizes of a page, and of what is read at once for it.
const (
	auditPage = 500     // jobs
	auditRows = 100_000 // expected due times
	auditDay  = 24 * time.Hour
)

// auditPageJobs chooses the next jobs, deleted ones included, as long as their versions are kept.
const auditPageJobs = `
SELECT DISTINCT partition, job_id FROM job_version
WHERE (partition, job_id) > (@partition, @job::uuid) AND (@jobs::uuid[] IS NULL OR job_id = ANY (@jobs))
ORDER BY partition, job_id LIMIT @limit`

// Page judges the next jobs. It returns how far it is, as the partition of the last job, and false after the last page.
// If a statement takes too long, the page is smaller: many jobs may have many entries.
func (a *LedgerAudit) Page(ctx context.Context) (out auditor.Report, at int16, more bool, err error) {
	for {
		out, at, more, err = a.page(ctx)
		if !store.GaveUp(ctx, err) || a.size == 1 {
			return out, at, more, err
		}
		a.size /= 2
	}
}

func (a *LedgerAudit) page(ctx context.Context) (out auditor.Report, at int16, more bool, err error) {
	from := a.params.Window.From
	if a.known != nil {
		from = from.Add(-auditDay)
	}
	jobs, err := auditJobs(ctx, a.db, auditPageJobs, from, pgx.NamedArgs{
		"partition": a.after.partition, "job": a.after.id, "jobs": a.params.Jobs, "limit": a.size,
	})
	if err != nil || len(jobs) == 0 {
		return out, job.Partitions, false, err
	}
	last := jobs[len(jobs)-1]
	for again := true; again; {
		if out, err = a.judgeDays(ctx, jobs); err == nil {
			again, err = a.raiseFloor(ctx)
		}
		if err != nil {
			return out, last.Partition, true, err
		}
	}
	if err := saveFindings(ctx, a.db, &out); err != nil {
		return out, last.Partition, true, err
	}
	a.after = jobKey{last.Partition, last.ID}
	a.size = min(auditPage, a.size+a.size/8+1) // slowly: a page that is too large costs a timeout
	for _, j := range jobs {
		delete(a.passes, j.ID)
	}
	return out, last.Partition, true, nil
}

func (a *LedgerAudit) judgeDays(ctx context.Context, jobs []*auditor.Job) (out auditor.Report, err error) {
	out.Jobs = int64(len(jobs))
	w := a.params.Window
	for from := w.From; from.Before(w.To); from = from.Add(auditDay) {
		day := auditor.Window{From: from, To: w.To}
		if to := from.Add(auditDay); to.Before(w.To) {
			day.To = to
		}
		r, err := a.judge(ctx, jobs, day)
		if err != nil {
			return out, err
		}
		out.Add(r)
	}
	return out, nil
}

// pass returns what is known of a job. A page that is repeated asks again, and known only goes forward.
func (a *LedgerAudit) pass(j *auditor.Job) (p auditor.Pass, err error) {
	if a.known == nil {
		return p, nil
	}
	p, ok := a.passes[j.ID]
	if !ok {
		if p, err = a.known(j.Partition, j.ID); err == nil {
			a.passes[j.ID] = p
		}
	}
	return p, err
}

// judge judges jobs in a window, as many at a time as fit into one read of the ledger.
func (a *LedgerAudit) judge(ctx context.Context, jobs []*auditor.Job, w auditor.Window) (out auditor.Report, err error) {
	var batch, before []*auditor.Expected
	rows := 0
	for i, j := range jobs {
		p, err := a.pass(j)
		if err != nil {
			return out, err
		}
		e, err := j.Expect(a.times, w)
		switch {
		case err != nil: // this version cannot read it
			out.Unreadable++
		case a.known != nil && e.Is(p.Digest):
			out.AddRuns(e)
		default:
			batch = append(batch, e)
			rows += e.Len()
		}
		if p.DayBefore && err == nil && !w.From.Add(-auditDay).Before(a.floor.Add(-time.Microsecond)) {
			e, err := j.Expect(a.times, auditor.Window{From: w.From.Add(-auditDay), To: w.From})
			if err == nil {
				before = append(before, e)
				rows += e.Len()
			}
		}
		if rows < auditRows && i < len(jobs)-1 {
			continue
		}
		r, err := judgeBatch(ctx, a.db, a.times, batch)
		if err != nil {
			return out, err
		}
		out.Add(r)
		if r, err = judgeBatch(ctx, a.db, a.times, before); err != nil {
			return out, err
		}
		out.Add(r.Problems()) // the others were counted with their day
		batch, before, rows = batch[:0], before[:0], 0
	}
	return out, nil
}

// auditJobsOf reads what the audit needs to know about chosen jobs: their state, their cursor, and their versions from
// the one that was in force at the start of the window on.
const auditJobsOf = `
SELECT now(), p.partition, p.job_id, v.namespace_id, coalesce(j.name, ''), coalesce(j.state, 0), j.plan_from,
       coalesce(j.cursor_id, 0), c.next_due_at, v.version, v.created_at, v.definition
FROM (%s) p
JOIN LATERAL (
    SELECT * FROM job_version
    WHERE partition = p.partition AND job_id = p.job_id AND version >= coalesce((
        SELECT version FROM job_version
        WHERE partition = p.partition AND job_id = p.job_id AND created_at <= @from
        ORDER BY version DESC LIMIT 1), 1)) v ON true
LEFT JOIN LATERAL (
    SELECT * FROM job WHERE partition = p.partition AND id = p.job_id LIMIT 1) j ON true
LEFT JOIN LATERAL (
    SELECT next_due_at FROM cursor WHERE partition = j.partition AND id = j.cursor_id LIMIT 1) c ON true
ORDER BY p.partition, p.job_id, v.version`

// auditJobs reads the jobs that a query chooses.
func auditJobs(
	ctx context.Context, db store.All, choose string, from time.Time, args pgx.NamedArgs,
) (jobs []*auditor.Job, err error) {
	args["from"] = from
	err = db.Tx(ctx, "read jobs for the audit", func(tx pgx.Tx) error {
		jobs = nil
		if _, err := tx.Exec(ctx, store.Apply(store.KeyLookups)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(auditJobsOf, choose), args)
		if err != nil {
			return err
		}
		if jobs, err = collectAuditJobs(rows); err != nil {
			return err
		}
		return readDeleted(ctx, tx, jobs)
	})
	return jobs, err
}

func collectAuditJobs(rows pgx.Rows) (jobs []*auditor.Job, err error) {
	var j auditor.Job
	var namespace *uuid.UUID
	var planFrom, next *time.Time
	var number int32
	var created time.Time
	var definition []byte
	_, err = pgx.ForEachRow(rows, []any{
		&j.Now, &j.Partition, &j.ID, &namespace, &j.Name, &j.State, &planFrom, &j.Cursor, &next,
		&number, &created, &definition,
	}, func() error {
		if n := len(jobs); n == 0 || jobs[n-1].ID != j.ID {
			added := j
			added.Now, added.PlanFrom, added.NextDue = j.Now.UTC(), store.OrZero(planFrom).UTC(), store.OrZero(next).UTC()
			if namespace != nil {
				added.Namespace = *namespace
			}
			jobs = append(jobs, &added)
		}
		last := jobs[len(jobs)-1]
		// A definition that cannot be read has no schedule, which Expect reports.
		v, _ := auditor.NewVersion(number, created.UTC(), definition)
		last.Versions = append(last.Versions, v)
		return nil
	})
	return jobs, err
}

const deletedAt = `
SELECT object, max(at) FROM (
    SELECT a.object, a.at FROM unnest($1::uuid[], $2::text[]) k(namespace_id, object), LATERAL (
        SELECT object, at FROM audit_log
        WHERE namespace_id = k.namespace_id AND object = k.object AND action = 'job.delete' OFFSET 0) a) d
GROUP BY object`

// readDeleted reads when deleted jobs were deleted.
func readDeleted(ctx context.Context, tx pgx.Tx, jobs []*auditor.Job) error {
	deleted := map[string]*auditor.Job{}
	var namespaces []uuid.UUID
	var objects []string
	for _, j := range jobs {
		if j.State == 0 {
			id := job.FormatJobID(j.ID)
			deleted[id] = j
			namespaces, objects = append(namespaces, j.Namespace), append(objects, id)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, deletedAt, namespaces, objects)
	if err != nil {
		return err
	}
	var object string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&object, &at}, func() error {
		deleted[object].DeletedAt = at.UTC()
		return nil
	})
	return err
}

const insertFindings = `
WITH added AS (
    INSERT INTO audit_finding (partition, job_id, due_at, kind, namespace_id, found_at)
    SELECT unnest($1::smallint[]), unnest($2::uuid[]), unnest($3::timestamptz[]), unnest($4::text[]),
           unnest($5::uuid[]), now()
    ON CONFLICT DO NOTHING
    RETURNING job_id, due_at, kind
)
SELECT job_id, due_at, kind FROM added`

// saveFindings stores findings, so that why can show them, and marks those that are new.
func saveFindings(ctx context.Context, db store.All, r *auditor.Report) error {
	if len(r.Findings) == 0 {
		return nil
	}
	var partitions []int16
	var jobs, namespaces []uuid.UUID
	var due []time.Time
	var kinds []string
	for _, f := range r.Findings {
		partitions, jobs = append(partitions, job.PartitionOf(f.Job)), append(jobs, f.Job)
		due, kinds, namespaces = append(due, f.DueAt), append(kinds, string(f.Kind)), append(namespaces, f.Namespace)
	}
	rows, err := db.Query(ctx, insertFindings, partitions, jobs, due, kinds, namespaces)
	if err != nil {
		return fmt.Errorf("save what the audit found: %w", err)
	}
	var f auditor.Finding
	added := map[auditor.Finding]bool{}
	_, err = pgx.ForEachRow(rows, []any{&f.Job, &f.DueAt, &f.Kind}, func() error {
		added[auditor.Finding{Job: f.Job, DueAt: f.DueAt.UTC(), Kind: f.Kind}] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("save what the audit found: %w", err)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.New = added[auditor.Finding{Job: f.Job, DueAt: f.DueAt.UTC(), Kind: f.Kind}]
	}
	return nil
}
