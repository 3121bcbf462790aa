package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// fresh is the object that an operation is tried on, where a new job, a new key
// and an ended run will not do.
var fresh = map[string]func(w *walk, n *tenant) (param, value string){
	"resume-job": func(w *walk, n *tenant) (string, string) {
		id := w.job(n, "/ok")
		w.must(n.key, "POST", "/api/v1/jobs/"+id+":pause", "", "state")
		return "job", id
	},
	"rollback-job": func(w *walk, n *tenant) (string, string) {
		id := w.job(n, "/ok")
		w.must(n.key, "PATCH", "/api/v1/jobs/"+id, `{"description":"second version"}`, "id")
		return "job", id
	},
	"discard-dead-letter": dead, "redrive-dead-letter": dead, "retry-run": dead,
	"abort-operation": func(w *walk, n *tenant) (string, string) { return "operation", w.operation(n) },
	"undo-operation": func(w *walk, n *tenant) (string, string) {
		id := w.must(n.key, "POST", "/api/v1/jobs:relabel", bodies["relabel-jobs"], "id")
		_, err := w.pool.Exec(w.t.Context(), `UPDATE operation SET state = 'finished', ended_at = now()`)
		require.NoError(w.t, err)
		return "operation", id
	},
	"pause-queue": func(w *walk, n *tenant) (string, string) { return "queue", w.queue(n) },
	"resume-queue": func(w *walk, n *tenant) (string, string) {
		queue := w.queue(n)
		w.must(n.key, "POST", "/api/v1/queues/"+queue+":pause", "", "name")
		return "queue", queue
	},
	"delete-session":    func(w *walk, n *tenant) (string, string) { return "session", w.session(n) },
	"heartbeat-session": session, "claim-runs": session, "complete-runs": session,
	"cancel-run": func(w *walk, n *tenant) (string, string) { return "run", w.started(n, w.job(n, "/hang")) },
}

func session(w *walk, n *tenant) (string, string) { return "session", w.session(n) }

// dead is a run that failed permanently.
func dead(w *walk, n *tenant) (string, string) { return "run", w.ended(n, w.job(n, "/no")) }

// queue creates a queue in which nothing is due.
func (w *walk) queue(n *tenant) string {
	w.t.Helper()
	name := "idle-" + uuid.NewString()[:8]
	w.must(n.key, "POST", "/api/v1/jobs",
		`{"name":"`+name+`","schedule":"every 24h","queue":"`+name+`","target":{"kind":"noop"}}`, "id")
	return name
}

// asBrowser logs in and returns the call of an operation by that session.
func (w *walk) asBrowser(n *tenant, o operation) func() reply {
	w.t.Helper()
	login := `{"key":"` + n.key + `"}`
	if o.public() {
		return func() reply { return w.ask("", o, o.path, login) }
	}
	got := w.call("", "POST", "/api/v1/session", login)
	cookie := regexp.MustCompile(`belfry=bfs_\w+`).FindString(got.text)
	require.NotEmpty(w.t, cookie, got.text)
	return func() reply {
		return w.askWith(map[string]string{"Cookie": cookie, "Belfry-UI": "1"}, o, o.path, "")
	}
}

// ofWorker calls an operation of workers with a worker's key. A session is opened for a queue that does not exist yet.
func (w *walk) ofWorker(n *tenant, o operation) func() reply {
	w.t.Helper()
	queue := n.objects["queue"]
	if o.id == "create-session" {
		n.objects["queue"] = "created-by-worker"
		defer func() { n.objects["queue"] = queue }()
	}
	_, key, err := w.store.CreateKey(w.t.Context(), access.KeyParams{
		Namespace: n.id, Name: "worker", Role: access.Worker, Queues: []string{n.objects["queue"]}, Actor: "test",
	})
	require.NoError(w.t, err)
	path := o.at(n.objects)
	return func() reply { return w.ask(key, o, path, o.payload(w.t)) }
}

// last returns the action of the newest entry, and where its request came from.
func (w *walk) last(n *tenant) (action, address, request string) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `
SELECT action, coalesce(address, ''), coalesce(request_id, '') FROM audit_log WHERE namespace_id = $1
ORDER BY seq DESC LIMIT 1`, n.id).Scan(&action, &address, &request))
	return action, address, request
}

// TestEachChangeIsAudited (S16): every operation that changes something leaves
// exactly one entry, which names its request and the client's address, every other none, and the chain holds.
func TestEachChangeIsAudited(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	t.Cleanup(func() { close(w.sink.release) })
	n := w.tenant(access.DefaultNamespace)
	entries := func() int64 {
		good, _, err := w.store.VerifyAudit(t.Context(), n.id, access.AuditCheck{}, 1000)
		require.NoError(t, err)
		return good.Seq
	}
	changes := 0
	for _, o := range operations(t, w.base) {
		n.objects["job"] = w.job(n, "/ok")
		n.objects["key"] = w.must(n.key, "POST", "/api/v1/keys", `{"name":"k","role":"viewer"}`, "id")
		if prepare, ok := fresh[o.id]; ok {
			param, value := prepare(w, n)
			n.objects[param] = value
		}
		if o.byToken() || o.id == "switch-login-session" {
			continue // outcomes of attempts are in the ledger, and only people switch: see internal/server/oidc
		}
		ask := func() reply { return w.ask(n.key, o, o.at(n.objects)+required[o.id], o.payload(t)) }
		switch {
		case o.ofLogin():
			ask = w.asBrowser(n, o)
		case o.role == "worker":
			ask = w.ofWorker(n, o)
		}
		before := entries()
		got := ask()
		require.Less(t, got.status, 300, "%s %s: %s", o.method, o.path, got.body)
		want := int64(0)
		if o.change() || o.id == "create-session" {
			want = 1
			changes++
		}
		require.Equal(t, want, entries()-before, "entries of %s", o.id)
		if want == 1 {
			action, address, request := w.last(n)
			require.Regexp(t, `^127\.0\.0\.1:\d+$`, address, o.id)
			require.Contains(t, got.text, "X-Request-Id: "+request+"\r\n", o.id)
			require.Equal(t, o.id == "create-session" || o.id == "create-queue", action == "queue.create", o.id)
		}
	}
	all := entries()
	require.Contains(t, string(w.call(n.key, "GET", "/api/v1/audit:verify", "").body),
		fmt.Sprintf(`"ok":true,"entries":%d,`, all))
	require.Contains(t, string(w.call(n.key, "GET", "/api/v1/audit:verify", "").body),
		fmt.Sprintf(`"sealed_from":1,"sealed":%d,"unsealed":0,"unchecked":0`, all), "nodes seal each entry")
	_, err := w.pool.Exec(t.Context(), `UPDATE audit_log SET actor = 'another' WHERE seq = 5`)
	require.NoError(t, err)
	require.Regexp(t, `^{"ok":false,"entries":4,"hash":"[^"]+","problem":"entry 5`,
		string(w.call(n.key, "GET", "/api/v1/audit:verify", "").body))
	require.GreaterOrEqual(t, changes, 8)
	t.Logf("%d operations that change something", changes)
}

// TestRefusedRequestsAreAudited: requests of a key that may not change what they want to are one entry of the log, with
// their count. Refused reads are none.
func TestRefusedRequestsAreAudited(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	t.Cleanup(func() { close(w.sink.release) })
	n := w.tenant(access.DefaultNamespace)
	viewer, key := w.key(n.id, access.Viewer, 0)
	refused, reads, first := 0, 0, ""
	for _, o := range operations(t, w.base) {
		if o.byToken() || o.ofLogin() {
			continue
		}
		got := w.ask(key, o, o.at(n.objects)+required[o.id], o.payload(t))
		switch {
		case got.status != http.StatusForbidden:
		case o.method == http.MethodGet:
			reads++
		default:
			refused++
			if first == "" {
				first = regexp.MustCompile(`X-Request-Id: (\S+)`).FindStringSubmatch(got.text)[1]
			}
		}
	}
	require.Greater(t, refused, 30)
	require.Positive(t, reads)
	require.NoError(t, w.end(t))
	rows, err := w.pool.Query(t.Context(), `
SELECT actor, object, request_id, detail::jsonb ->> 'role', (detail::jsonb ->> 'count')::int,
       jsonb_array_length(detail::jsonb -> 'operations')
FROM audit_log WHERE action = 'request.refuse' AND address LIKE '127.0.0.1:%' ORDER BY seq`)
	require.NoError(t, err)
	id := access.FormatKeyID(viewer.ID)
	type entry struct {
		Actor, Object, Request, Role string
		Count, Operations            int
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	require.NoError(t, err)
	require.Equal(t, first, all[0].Request)
	count := 0
	for _, e := range all { // one for each minute that the requests took
		count += e.Count
		require.LessOrEqual(t, e.Operations, 10)
		require.Equal(t, entry{"key:" + viewer.Name + " [" + id + "]", id, e.Request, "viewer", e.Count, e.Operations}, e)
	}
	require.Equal(t, refused, count)
	_, _, err = w.store.VerifyAudit(t.Context(), n.id, access.AuditCheck{}, 1000)
	require.NoError(t, err)
	t.Logf("%d refused requests", refused)
}

// TestChangedAuditIsFound (S16): what was changed or taken out of the log shows,
// and a server could not do it.
func TestChangedAuditIsFound(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, sql := range []string{
		`UPDATE audit_log SET actor = 'another' WHERE seq = 2`,
		`UPDATE audit_log SET detail = '{}' WHERE seq = 4`,
		`UPDATE audit_log SET at = at + interval '1 s' WHERE seq = 3`,
		`UPDATE audit_log SET address = '192.0.2.8:80' WHERE seq = 2`,
		`UPDATE audit_log SET request_id = NULL WHERE seq = 3`,
		`UPDATE audit_log SET address = NULL, request_id = NULL WHERE seq = 1`,
		`DELETE FROM audit_log WHERE seq = 1`,
		`DELETE FROM audit_log WHERE seq = 2`,
		`UPDATE audit_log SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3);
		UPDATE audit_log SET seq = -seq WHERE seq < 0`,
	} {
		pool := pgtest.New(t)
		server := pgtest.AsServer(t, pool)
		store := pgtest.NewStore(server)
		for range 4 {
			from := access.Origin{Address: "192.0.2.7:80", Request: "r1"}
			_, _, err := store.CreateKey(access.WithOrigin(ctx, from),
				access.KeyParams{Namespace: access.DefaultNamespace, Name: "k", Role: access.Viewer, Actor: "test"})
			require.NoError(t, err)
		}
		good, _, err := store.VerifyAudit(ctx, access.DefaultNamespace, access.AuditCheck{}, 1000)
		require.NoError(t, err)
		require.EqualValues(t, 4, good.Seq)
		_, err = server.Exec(ctx, sql)
		require.ErrorContains(t, err, "permission denied", sql)
		_, err = pool.Exec(ctx, sql)
		require.NoError(t, err, sql)
		_, _, err = store.VerifyAudit(ctx, access.DefaultNamespace, access.AuditCheck{}, 1_000_000)
		require.ErrorContains(t, err, "is not what was written there", sql)
	}
}

// TestAMarkOfTheAuditLog: entries that were cut off at the end, and a chain that was written again, show to whoever has a
// mark from before.
func TestAMarkOfTheAuditLog(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := pgtest.New(t)
	server := pgtest.AsServer(t, pool)
	store := pgtest.NewStore(server)
	create := func(name string) {
		_, _, err := store.CreateKey(ctx,
			access.KeyParams{Namespace: access.DefaultNamespace, Name: name, Role: access.Viewer, Actor: "test"})
		require.NoError(t, err)
	}
	for range 3 {
		create("before")
	}
	db := postgres.New(server, postgres.Options{})
	logged := &strings.Builder{}
	var mark access.AuditMark
	for line, handler := range map[string]slog.Handler{
		`(?m)msg="audit log" namespace=default mark="?([^"\n]+)"?$`:        slog.NewTextHandler(logged, nil),
		`(?m)"msg":"audit log","namespace":"default","mark":"([^"\n]+)"}$`: slog.NewJSONHandler(logged, nil),
	} {
		logged.Reset()
		n := &node{db: db, metrics: newMetrics(testConfig("")), log: slog.New(handler)}
		for range 2 {
			_, err := n.auditHeadOnce(ctx)
			require.NoError(t, err)
		}
		found := regexp.MustCompile(line).FindAllStringSubmatch(logged.String(), -1)
		require.Len(t, found, 1, "it is logged again only if it has changed: %s", logged)
		var ok bool
		mark, ok = access.ParseAuditMark(found[0][1])
		require.True(t, ok)
		require.EqualValues(t, 3, mark.Seq)
	}
	verify := func(from access.AuditMark) (int64, error) {
		good, _, err := store.VerifyAudit(ctx, access.DefaultNamespace, access.AuditCheck{AuditMark: from}, 1000)
		return good.Seq, err
	}

	create("after")
	seq, err := verify(mark)
	require.NoError(t, err)
	require.EqualValues(t, 4, seq)

	_, err = pool.Exec(ctx, `DELETE FROM audit_log WHERE seq >= 3`)
	require.NoError(t, err)
	_, err = verify(access.AuditMark{})
	require.NoError(t, err, "what is left is a chain")
	_, err = verify(mark)
	require.ErrorContains(t, err, "entry 3 is not there")
	create("again")
	create("again")
	_, err = verify(access.AuditMark{})
	require.NoError(t, err, "a chain again")
	_, err = verify(mark)
	require.ErrorContains(t, err, "entry 3 of")

	hash := mark.String()[len("3:"):]
	for _, text := range []string{"", "3", "3:", ":" + hash, "0:" + hash, "-1:" + hash, "3:AAAA", "3:" + hash + "="} {
		_, ok := access.ParseAuditMark(text)
		require.False(t, ok, text)
	}
}
