package postgres_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// statement is a statement that the store sent.
type statement struct {
	sql  string
	args []any
}

// recording records the statements that a pool sends, with the settings of their transaction, so that the test explains
// exactly what the product runs.
type recording struct {
	mu    sync.Mutex
	on    bool
	sent  []statement
	trips int // to the database and back, for these statements
}

func (r *recording) add(sql string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.sent = append(r.sent, statement{sql, args})
	}
}

func (r *recording) roundTrip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.trips++
	}
}

func (r *recording) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	sql, args := q.SQL, q.Args
	if len(args) == 1 {
		if named, ok := args[0].(pgx.NamedArgs); ok {
			sql, args, _ = named.RewriteQuery(ctx, nil, sql, args)
		}
	}
	r.add(sql, args)
	r.roundTrip()
	return ctx
}
func (r *recording) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *recording) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.roundTrip()
	return ctx
}

func (r *recording) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	r.add(q.SQL, q.Args)
}
func (r *recording) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// during returns the statements that are sent while work runs.
func (r *recording) during(work func()) []statement {
	r.mu.Lock()
	r.on, r.sent, r.trips = true, nil, 0
	r.mu.Unlock()
	work()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	return r.sent
}

// node is a part of EXPLAIN's JSON.
type node struct {
	Type      string  `json:"Node Type"`
	Relation  string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	IndexCond string  `json:"Index Cond"`
	Plans     []node  `json:"Plans"`
	Hit       int     `json:"Shared Hit Blocks"`
	Read      int     `json:"Shared Read Blocks"`
	Loops     float64 `json:"Actual Loops"`
}

// accesses returns how a plan reads rows: each index with the columns that it is searched by, and operations that are
// expensive on any table.
func (n *node) accesses(into map[string]bool) {
	switch {
	case slices.Contains([]string{"cluster", "failover", "session", "partition", "queue"}, n.Relation):
		into[n.Relation] = true // so small that any way is right
		n.Plans = slices.DeleteFunc(n.Plans, func(child node) bool { return child.Type == "Bitmap Index Scan" })
	case n.Type == "Index Scan" || n.Type == "Index Only Scan":
		relation := historyDay.ReplaceAllString(n.Relation, "run_history")
		if n.IndexCond == "" && n.Index != "cursor_broken" { // it contains only broken cursors
			into["all of "+n.Index] = true
			break
		}
		into[fmt.Sprintf("%s by %s", relation, strings.Join(searchedBy(n.IndexCond), " "))] = true
	case n.Type == "Tid Scan":
		into[n.Relation+" by address"] = true
	case n.Type == "Bitmap Index Scan":
		into["bitmap of "+n.Index] = true
	case strings.HasSuffix(n.Type, "Scan") && n.Relation != "":
		into[strings.ToLower(n.Type)+" of "+n.Relation] = true
	case n.Type == "Hash Join" && len(n.relations()) == 0: // of results of the statement, not of tables
		into["join of results"] = true
	case n.Type == "Hash Join", n.Type == "Merge Join", n.Type == "Gather":
		into[strings.ToLower(n.Type)] = true
	case n.Type == "Sort", n.Type == "Materialize":
		if of := n.relations(); len(of) > 0 {
			into[strings.ToLower(n.Type)+" of "+strings.Join(sorted(of), " ")] = true
		}
	}
	for i := range n.Plans {
		n.Plans[i].accesses(into)
	}
}

// relations returns the tables below a node, except those of which a limit leaves over a few rows.
func (n *node) relations() map[string]bool {
	all := map[string]bool{}
	for i := range n.Plans {
		if n.Plans[i].Type == "Limit" {
			continue
		}
		if r := n.Plans[i].Relation; r != "" {
			all[r] = true
		}
		maps.Copy(all, n.Plans[i].relations())
	}
	return all
}

var (
	historyDay = regexp.MustCompile(`run_history_\d+`)
	rowOf      = regexp.MustCompile(`ROW\((\w+), (\w+)\)`)
	leftSide   = regexp.MustCompile(`\((\w+)(?:\)::bigint)?(?:, (\w+)\))? (?:=|<=|>=|<|>|IS NOT NULL)`)
)

// searchedBy returns the columns of an index that a condition bounds.
func searchedBy(cond string) (columns []string) {
	for _, m := range leftSide.FindAllStringSubmatch(rowOf.ReplaceAllString(cond, "($1, $2)"), -1) {
		for _, column := range m[1:] {
			if column != "" && !slices.Contains(columns, column) {
				columns = append(columns, column)
			}
		}
	}
	return columns
}

// explain returns the accesses of the statements of some transactions, each explained as a prepared statement under
// the settings of its transaction.
func (b *bulk) explain(sent []statement, mode string) []string {
	b.t.Helper()
	ctx := b.t.Context()
	conn, err := b.pool.Acquire(ctx)
	require.NoError(b.t, err)
	defer conn.Release()
	into := map[string]bool{}
	tx, err := conn.Begin(ctx)
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, tx.Rollback(ctx)) }()
	_, err = tx.Exec(ctx, `SELECT set_config('plan_cache_mode', $1, true)`, mode)
	require.NoError(b.t, err)
	for i, s := range sent {
		switch word, _, _ := strings.Cut(strings.TrimSpace(s.sql), " "); {
		case strings.Contains(s.sql, "set_config"):
			_, err := tx.Exec(ctx, s.sql, s.args...)
			require.NoError(b.t, err)
		case slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, word), strings.HasPrefix(word, "WITH"):
			explainOne(b, tx, fmt.Sprintf("explained_%d", i), s).accesses(into)
		default:
			require.Contains(b.t, []string{"begin", "commit", "rollback"}, s.sql)
		}
	}
	return sorted(into)
}

func explainOne(b *bulk, tx pgx.Tx, name string, s statement) *node {
	b.t.Helper()
	return explainWith(b, tx, name, s, "FORMAT JSON")
}

func explainWith(b *bulk, tx pgx.Tx, name string, s statement, options string) *node {
	b.t.Helper()
	ctx := b.t.Context()
	described, err := tx.Conn().PgConn().Prepare(ctx, "", s.sql, nil)
	require.NoError(b.t, err)
	values := make([]string, len(s.args))
	for i, arg := range s.args {
		text, err := tx.Conn().TypeMap().Encode(described.ParamOIDs[i], pgx.TextFormatCode, arg, nil)
		require.NoError(b.t, err)
		values[i] = "NULL"
		if _, word := arg.(string); word || text != nil { // the text of an empty string is nil
			values[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	execute := name
	if len(values) > 0 {
		execute += "(" + strings.Join(values, ", ") + ")"
	}
	_, err = tx.Exec(ctx, `PREPARE `+name+` AS `+s.sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(b.t, err)
	var text []byte
	require.NoError(
		b.t, tx.QueryRow(ctx, `EXPLAIN (`+options+`) EXECUTE `+execute, pgx.QueryExecModeSimpleProtocol).Scan(&text),
	)
	_, err = tx.Exec(ctx, `DEALLOCATE `+name, pgx.QueryExecModeSimpleProtocol)
	require.NoError(b.t, err)
	var plans []struct{ Plan node }
	require.NoError(b.t, json.Unmarshal(text, &plans))
	return &plans[0].Plan
}

// blocks returns how many blocks a statement reads under the settings of its transaction.
func (b *bulk) blocks(settings, s statement) (n int) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, tx.Rollback(b.t.Context())) }()
	_, err = tx.Exec(b.t.Context(), settings.sql, settings.args...)
	require.NoError(b.t, err)
	plan := explainWith(b, tx, "measured", s, "ANALYZE, BUFFERS, FORMAT JSON")
	return plan.Hit + plan.Read
}

func sorted(set map[string]bool) (out []string) {
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// hot is a step of the path, and the only ways in which its statements may read rows.
type hot struct {
	name   string
	before func() // what the step needs; may be nil
	step   func()
	ways   []string // nil: any but a scan
	sent   []statement
}

// hotSteps are the steps that run all the time, on the current content of the tables.
func (b *bulk) hotSteps() []*hot {
	t, ctx, all := b.t, b.t.Context(), allPartitions()
	now := b.now()
	batch := b.keys(1000)
	var done []job.Completion
	var keys []job.Key
	return []*hot{
		{name: "NextDue", step: func() {
			_, next, _, err := b.store.NextDue(ctx, all)
			require.NoError(t, err)
			require.Len(t, next, job.Partitions)
		}, ways: []string{"cursor by partition plan_at", "partition"}},
		{name: "Plan", step: func() {
			runs, skipped := 0, int64(0)
			bound := 1 // in the first transaction: it stops between two jobs
			for more := true; more; {
				planned, err := b.store.Plan( // all cursors at once: how many are late depends on the time of day
					ctx, job.PlanParams{Partitions: all[:10], LookAhead: 3 * time.Hour, Cursors: 5000, Runs: bound},
				)
				require.NoError(t, err)
				runs, skipped, more = runs+len(planned.Runs), skipped+planned.Skipped, planned.More
				bound = 0
			}
			require.NotZero(t, runs)
			require.NotZero(t, skipped)
		}, ways: []string{
			"cursor by address", "cursor by partition id", "cursor by partition plan_at",
			"job by partition cursor_id id", "partition",
		}},
		{name: "Plan in turns", step: func() {
			_, err := b.store.Plan(ctx, job.PlanParams{
				Partitions: all[:10], LookAhead: time.Hour, Cursors: 500, Full: []uuid.UUID{uuid.New()},
			})
			require.NoError(t, err)
		}, ways: []string{
			"all of namespace_pkey", // only their ids
			"cursor by namespace_id plan_at", "cursor by partition id", "cursor by partition plan_at",
			"job by partition cursor_id id", "partition", "sort of namespace",
		}},
		{name: "Plan one-offs", before: func() { b.oneOffs(200) }, step: func() {
			runs := 0
			for more := true; more; {
				planned, err := b.store.Plan(
					ctx, job.PlanParams{Partitions: all[10:], LookAhead: 3 * time.Minute, Cursors: 500},
				)
				require.NoError(t, err)
				runs, more = runs+len(planned.Runs), planned.More
			}
			require.Greater(t, runs, 100)
		}, ways: []string{
			"cursor by address", "cursor by partition id", "cursor by partition plan_at", "job by address",
			"job by partition cursor_id id", "partition",
		}},
		{name: "Pending", step: func() {
			runs, err := b.store.Pending(ctx, all, now.Add(time.Hour))
			require.NoError(t, err)
			require.NotEmpty(t, runs)
		}, ways: []string{"cluster", "run by partition due_at"}},
		{name: "Sweep", step: func() {
			_, err := b.store.Sweep(ctx, job.SweepParams{
				Partitions: all, From: now.Add(-time.Minute), To: now.Add(time.Minute),
			})
			require.NoError(t, err)
		}, ways: []string{"cluster", "run by partition run_at"}},
		{name: "Claim", step: func() {
			done = b.claim(batch)
			// The first ones end.
			slices.SortFunc(done, func(x, y job.Completion) int { return bytes.Compare(x.Key.Job[:], y.Key.Job[:]) })
		}, ways: []string{
			"cluster", "job by partition id", "namespace by id", "partition", "queue", "run by address",
			"run by partition job_id", "run by partition job_id due_at seq", "session",
		}},
		{name: "ResolveClaim", step: func() {
			attempts, err := b.store.ResolveClaim(ctx, b.session, completionKeys(done[:50]))
			require.NoError(t, err)
			require.Len(t, attempts, 50)
		}, ways: []string{
			"job by partition id", "namespace by id", "queue", "run by address", "run by partition job_id due_at seq",
			"session",
		}},
		{name: "CompleteSucceeded", step: func() { b.complete(done[:500]) }, ways: []string{
			"join of results", "permit by address", "permit by limit_kind limit_id number", "run by address",
			"run by partition job_id due_at seq",
		}},
		{name: "CompleteDecided", step: func() { b.decide(done[500:520]) }, ways: []string{
			"job by partition id", "permit by address", "permit by limit_kind limit_id number", "run by address",
			"run by partition job_id due_at seq", "session",
		}},
		{name: "Fenced", step: func() {
			attempts := make([]job.Attempt, 0, 1000)
			for _, c := range done {
				attempts = append(attempts, job.Attempt{Key: c.Key, Session: c.Session, Number: c.Attempt})
			}
			fenced, err := b.store.Fenced(ctx, attempts)
			require.NoError(t, err)
			//nolint:testifylint // Len would print them all
			require.Equal(t, 519, len(fenced), "all but the one that waits for a report and those under way")
		}, ways: []string{"run by partition job_id due_at seq"}},
		{name: "WriteOutputs", step: func() {
			outputs := make([]job.Output, 0, 100)
			for _, c := range done[900:] {
				outputs = append(outputs, job.Output{
					Key: c.Key, Session: c.Session, Attempt: c.Attempt, Namespace: uuid.New(), Text: "x", Total: 1,
				})
			}
			written, err := b.store.WriteOutputs(ctx, outputs)
			require.NoError(t, err)
			require.Equal(t, 100, written)
		}, ways: []string{"run by partition job_id due_at seq"}},
		{name: "Admit", before: func() { keys = b.replacing() }, step: func() { b.admit(keys) }, ways: []string{
			"cluster", "job by partition id", "namespace by id", "partition", "permit by address",
			"permit by limit_kind limit_id number", "queue", "run by address", "run by partition job_id",
			"run by partition job_id due_at seq", "session",
		}},
		{name: "AdmitWaiting", before: func() { keys = b.limited() }, step: func() {
			attempts, refused, err := claimWaiting(ctx, b.pool, b.store, b.session, keys)
			require.NoError(t, err)
			require.Equal(t, 30, len(attempts)) //nolint:testifylint // Len would print them all
			require.Equal(t, 20, len(refused))  //nolint:testifylint // Len would print them all
		}, ways: []string{
			"cluster", "job by partition id", "namespace by id", "namespace_rate by namespace_id", "partition",
			"permit by limit_kind limit_id number", "queue", "queue_rate by queue_id", "queue_waiter by queue_id",
			"run by address", "run by partition job_id", "run by partition job_id due_at seq", "session",
			"sort of queue_waiter", // one for each node
		}},
		{name: "Capacity", step: func() {
			_, err := b.store.ReportWaiters(
				ctx, b.session, []job.Limit{{Kind: job.LimitQueue, ID: 77}, {Kind: job.LimitKey, ID: 5}},
				[]job.WaiterReport{{Queue: 77, Waiting: 3}},
			)
			require.NoError(t, err)
		}, ways: []string{
			"namespace_rate by namespace_id", "permit by limit_kind limit_id number", "queue", "queue_rate by queue_id",
			"queue_waiter by queue_id", "sort of queue_waiter",
		}},
		{name: "Rescue", before: func() {
			b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE job_id = $1 AND state = 1`, done[600].Key.Job)
		}, step: func() {
			_, found, err := b.store.Rescue(ctx, all, 100)
			require.NoError(t, err)
			require.Equal(t, 1, found)
		}, ways: []string{
			"cluster", "job by partition id", "job_version by partition job_id version", "partition", "permit by address",
			"permit by limit_kind limit_id number",
			"run by address", "run by partition", "run by partition due_at", "run by partition expires_at",
			"run by partition job_id due_at seq", "session",
		}},
		{name: "Renew", step: func() {
			_, err := b.store.Renew(ctx, b.session, time.Hour, true)
			require.NoError(t, err)
		}, ways: []string{"cluster", "partition", "session"}},
		{name: "Survey", step: func() {
			_, err := b.store.Survey(ctx)
			require.NoError(t, err)
		}, ways: nil},
	}
}

// oneOffs creates one-off jobs that are not planned yet.
func (b *bulk) oneOffs(n int) {
	b.t.Helper()
	o := job.BulkParams{Namespace: uuid.MustParse(strings.Trim(bulkNamespace, "'")), Actor: "test"}
	for i := range n {
		o.Jobs = append(o.Jobs, job.NewJob{Definition: job.Definition{
			Name:     fmt.Sprintf("one-off-%d", i),
			Schedule: schedule.Spec{At: b.now().Add(2 * time.Minute).UTC().Format(time.RFC3339)},
			Target:   job.Target{Kind: "noop"},
		}})
	}
	_, err := b.store.CreateJobs(b.t.Context(), o)
	require.NoError(b.t, err)
}

func (b *bulk) now() (now time.Time) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT now()`).Scan(&now))
	return now
}

// decide reports one of each kind of outcome.
func (b *bulk) decide(done []job.Completion) {
	b.t.Helper()
	for i, o := range []job.Outcome{
		{Kind: job.Failed, Retryable: true},
		{Kind: job.Failed},
		{Kind: job.Accepted},
		{Kind: job.Lost},
		{Kind: job.Cancelled},
		{Kind: job.Deferred},
	} {
		done[i].Outcome = o
	}
	_, fenced, err := b.store.CompleteDecided(b.t.Context(), done)
	require.NoError(b.t, err)
	require.Zero(b.t, fenced)
}

// replacing makes two runs of a job due whose later runs replace earlier ones.
func (b *bulk) replacing() []job.Key {
	b.t.Helper()
	b.exec(`WITH j AS (UPDATE job SET policy = '{"overlap":"replace"}', admit = 2 WHERE name = 'job-9999' RETURNING id)
		UPDATE run SET admit = 2, run_at = now() - due_n * interval '1 s'
		FROM (SELECT job_id AS id, due_at AS due, row_number() OVER (ORDER BY due_at DESC) AS due_n
		      FROM run, j WHERE job_id = j.id) r
		WHERE job_id = r.id AND due_at = r.due`)
	rows, err := b.pool.Query(b.t.Context(), `
		SELECT r.partition, job_id, due_at, seq FROM run r JOIN job j ON j.id = job_id
		WHERE name = 'job-9999'
		ORDER BY due_at LIMIT 2`)
	require.NoError(b.t, err)
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k job.Key, err error) {
		err = row.Scan(&k.Partition, &k.Job, &k.DueAt, &k.Seq)
		return k, err
	})
	require.NoError(b.t, err)
	return keys
}

// limited makes 50 runs due in a queue with 30 permits, each with a concurrency key.
func (b *bulk) limited() []job.Key {
	b.t.Helper()
	b.exec(`
		INSERT INTO queue (id, namespace_id, name, max_running, rate, rate_seconds, burst) OVERRIDING SYSTEM VALUE
		VALUES (77, ` + bulkNamespace + `, 'narrow', 30, 100, 1, 100)`)
	keys := b.keys(50)
	for i, k := range keys {
		b.exec(
			`UPDATE run SET queue_id = 77, run_at = now(), concurrency_key = $2 WHERE job_id = $1 AND state = 0`,
			k.Job, i,
		)
	}
	return keys
}

// admit starts one run after the other.
func (b *bulk) admit(keys []job.Key) {
	b.t.Helper()
	for _, key := range keys {
		admitted, err := b.store.AdmitOne(b.t.Context(), b.session, key, 0)
		require.NoError(b.t, err)
		require.NotNil(b.t, admitted.Claimed)
	}
}

// scans matches accesses that read more of a big table than the statement needs.
var scans = regexp.MustCompile(
	`^(seq scan of|bitmap of).*(run|job|cursor|dead_letter)|hash join|merge join|gather|` +
		`^job by namespace_id$|^all of (run|job|cursor|dead_letter)`,
)

// TestHotStatementsKeepTheirPlan: the live table is empty one moment and full the next, so its statistics are wrong
// most of the time. Whatever they say, and for custom and generic plans, the statements read rows in the same ways.
func TestHotStatementsKeepTheirPlan(t *testing.T) {
	t.Parallel()
	for _, definitions := range []string{"never analysed", "analysed", "analysed while finished"} {
		t.Run("definitions "+definitions, func(t *testing.T) {
			t.Parallel()
			r := &recording{}
			b := setupBulk(t, r)
			b.exec(`ALTER TABLE run SET (autovacuum_enabled = false)`)
			b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
			b.exec(`ALTER TABLE cursor SET (autovacuum_enabled = false)`)
			b.shared(10_000)
			switch definitions {
			case "analysed":
				b.exec(`ANALYZE job, cursor`)
			case "analysed while finished": // as one-offs are, before others come
				b.exec(`UPDATE job SET state = 3`)
				b.exec(`UPDATE cursor SET next_due_at = next_due_at + interval '1 year', broken_at = now()`)
				b.exec(`VACUUM (ANALYZE) job, cursor`)
				b.exec(`UPDATE job SET state = 1`)
				b.exec(`UPDATE cursor SET next_due_at = next_due_at - interval '1 year', broken_at = NULL`)
			}
			b.pending(10)
			// So that some are missed.
			b.exec(`UPDATE cursor SET next_due_at = next_due_at - interval '5 hours' WHERE partition < 3`)
			b.exec(`UPDATE partition SET missed_until = now() WHERE id < 3`)
			steps := append(append(b.hotSteps(), b.changeSteps()...), b.catchUpStep())
			for _, s := range steps {
				if s.before != nil {
					s.before()
				}
				s.sent = r.during(s.step)
				require.NotEmpty(t, s.sent, s.name)
			}
			check := func(statistics string) {
				for _, s := range steps {
					for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
						ways := b.explain(s.sent, mode)
						t.Logf("%s, run %s, %s: %q", s.name, statistics, mode, ways)
						for _, way := range ways {
							require.NotRegexp(t, scans, way, "%s, run %s, %s", s.name, statistics, mode)
						}
						if s.ways != nil {
							require.Equal(t, s.ways, ways, "%s, run %s, %s", s.name, statistics, mode)
						}
					}
				}
			}
			check("never analysed")
			b.exec(`TRUNCATE run`)
			b.exec(`ANALYZE run`)
			b.pending(10)
			check("analysed while empty")
			b.exec(`ANALYZE run`)
			check("analysed while full")
		})
	}
}

// TestClaimsStayOnTheirPage: a claim that finds space on the page of its run writes no index. Runs that are planned
// together are claimed together.
func TestClaimsStayOnTheirPage(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(2000)
	b.pending(1)
	b.exec(`CREATE TABLE place AS SELECT job_id, (ctid::text::point)[0] AS page FROM run`)
	b.claim(b.keys(2000))
	var moved int
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT count(*) FROM run JOIN place USING (job_id) WHERE (run.ctid::text::point)[0] <> page`).Scan(&moved))
	require.Less(t, moved, 2000/20)
}

func completionKeys(done []job.Completion) []job.Key {
	keys := make([]job.Key, len(done))
	for i := range done {
		keys[i] = done[i].Key
	}
	return keys
}
