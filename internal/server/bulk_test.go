package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// makeMany creates jobs of two teams and returns their ids.
func (b *bundle) makeMany(count int) (ids []string) {
	b.t.Helper()
	for i := range count {
		ids = append(ids, b.make(fmt.Sprintf(`{"name":"job-%02d","schedule":"0 %d * * *","target":{"kind":"noop"},`+
			`"labels":{"team":"t%d"}}`, i, i%24, i%2)))
	}
	return ids
}

// begin sends a request for an operation and returns the path of the operation.
func (b *bundle) begin(path, body string) string {
	b.t.Helper()
	a := b.call("POST", path, body)
	require.Equal(b.t, 202, a.status, "%s", a.body)
	op := a.json(b.t)
	require.Equal(b.t, "/api/v1/operations/"+op["id"].(string), a.header.Get("Location"))
	return "/operations/" + op["id"].(string)
}

// preview counts runs. A count ends after some time, and then says that there may be more.
func (b *bundle) preview(path, body string) (out map[string]any) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		out = b.call("POST", path, body).json(b.t)
		return out["more"] == false
	}, time.Minute, 10*time.Millisecond)
	return out
}

// finish works on operations until one has ended, and returns it.
func (b *bundle) finish(path string) map[string]any {
	b.t.Helper()
	for range 1000 {
		op := b.call("GET", path, "").json(b.t)
		if op["state"] != "running" {
			return op
		}
		b.due()
		_, err := b.store.WorkOperation(b.t.Context())
		require.NoError(b.t, err)
	}
	require.Fail(b.t, "it does not end")
	return nil
}

// due lets operations continue now, whatever their rate.
func (b *bundle) due() {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `UPDATE operation SET next_at = now() WHERE state = 'running'`)
	require.NoError(b.t, err)
}

// counted returns one number that a statement selects.
func (b *bundle) counted(sql string) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql).Scan(&n))
	return n
}

func TestJobsInBulk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.makeMany(30)
	a := b.call("POST", "/jobs:pause", `{"filter":{"label":["team=t1"]},"dry_run":true}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Empty(t, a.header.Get("Location"))
	preview := a.json(t)
	require.EqualValues(t, 15, preview["count"])
	require.Equal(t, false, preview["more"])
	require.Len(t, preview["sample"], 5)
	first := preview["sample"].([]any)[0].(map[string]any)
	require.Equal(t, ids[1], first["id"])
	require.Equal(t, "job-01", first["name"])
	require.Equal(t, "active", first["state"])
	require.Zero(t, b.counted(`SELECT count(*) FROM operation`), "a dry run begins nothing")

	op := b.begin("/jobs:pause", `{"filter":{"label":["team=t1"]},"note":"moving","rate":4}`)
	late := b.make(`{"name":"late","schedule":"every 1h","target":{"kind":"noop"},"labels":{"team":"t1"}}`)
	done := b.finish(op)
	require.Equal(t, "finished", done["state"])
	require.Equal(t, "pause", done["kind"])
	require.Equal(t, "moving", done["note"])
	require.Equal(t, map[string]any{"label": "team=t1"}, done["filter"])
	require.EqualValues(t, 15, done["count"])
	require.EqualValues(t, 15, done["done"])
	require.EqualValues(t, 0, done["failed"])
	require.EqualValues(t, 1, done["progress"])
	require.Equal(t, 15, b.counted(`SELECT count(*) FROM job WHERE state = 2 AND note = 'moving'`))
	require.Equal(t, "active", b.call("GET", "/jobs/"+late, "").json(t)["state"], "it was created later")
	require.Equal(t, 15, b.counted(`SELECT count(*) FROM audit_log WHERE action = 'job.pause'`), "why needs each")

	done = b.finish(b.begin("/jobs:resume", `{"filter":{"state":"paused"},"rate":1000}`))
	require.EqualValues(t, 15, done["done"])
	require.Zero(t, b.counted(`SELECT count(*) FROM job WHERE state = 2`))

	done = b.finish(b.begin("/jobs:relabel", `{"filter":{"name":"JOB-1"},"set":{"env":"prod"},"remove":["team"]}`))
	require.EqualValues(t, 10, done["done"])
	require.Equal(t, 10, b.counted(`SELECT count(*) FROM job WHERE labels = '{"env":"prod"}' AND version = 2`))
	done = b.finish(b.begin("/jobs:relabel", `{"filter":{"name":"job-1"},"set":{"env":"prod"}}`))
	require.EqualValues(t, 10, done["done"])
	require.Zero(t, b.counted(`SELECT count(*) FROM job WHERE version = 3`), "nothing changes, so there is no new version")

	require.Equal(t, 204, b.call("DELETE", "/jobs/"+ids[2], "").status)
	op = b.begin("/jobs:delete", fmt.Sprintf(`{"ids":[%q,%q,%q],"rate":2}`, ids[1], ids[2], ids[3]))
	done = b.finish(op)
	require.Equal(t, "finished", done["state"])
	require.EqualValues(t, 2, done["count"])
	require.EqualValues(t, 2, done["done"])
	require.EqualValues(t, 1, done["failed"])
	items := b.call("GET", op+"/items?result=failed", "").json(t)["items"].([]any)
	require.Len(t, items, 1)
	require.Equal(t, ids[2], items[0].(map[string]any)["job"])
	require.Equal(t, "not found", items[0].(map[string]any)["error"])
	require.Equal(t, 404, b.call("GET", "/jobs/"+ids[3], "").status)
	require.Equal(t, 28, b.counted(`SELECT count(*) FROM job`))

	op = b.begin("/jobs:delete", `{"all":true,"rate":5}`)
	worked, err := b.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.True(t, worked)
	require.Equal(t, 200, b.call("POST", op+":abort", "").status)
	done = b.finish(op)
	require.Equal(t, "aborted", done["state"])
	require.EqualValues(t, 5, done["done"])
	require.Equal(t, 23, b.counted(`SELECT count(*) FROM job`))
}

func TestBulkRequestsAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.makeMany(1)[0]
	for path, bodies := range map[string][]string{
		"/jobs:pause": {
			`{}`, `{"filter":{}}`, `{"ids":["job_x"]}`, `{"filter":{"label":["x"]}}`, `{"all":true,"rate":0}`,
			`{"filter":{"name":"x"},"ids":["` + id + `"]}`, `{"all":true,"until":"2020-01-01T00:00:00Z"}`,
			`{"all":true,"jitter":"5m"}`, `{"filter":{"job":"x"}}`,
		},
		"/jobs:relabel": {`{"all":true}`, `{"all":true,"set":{" ":"x"}}`},
		"/jobs:spread":  {`{"all":true,"jitter":"25h"}`, `{"all":true,"jitter":"0s"}`},
		"/runs:retry": {
			`{"all":true}`, `{"filter":{"state":["due"]}}`, `{"ids":["` + id + `"]}`,
			`{"filter":{"state":["failed"]},"attempts":[1]}`,
		},
		"/runs:cancel": {`{}`, `{"filter":{"state":["failed"]}}`},
	} {
		for _, body := range bodies {
			a := b.call("POST", path, body)
			require.Equal(t, 422, a.status, "%s %s: %s", path, body, a.body)
		}
	}
	require.Equal(t, 404, b.call("POST", "/runs:cancel", `{"filter":{"job":"none"}}`).status)
	require.Zero(t, b.counted(`SELECT count(*) FROM operation`))

	operator, viewer := b.newKey(defaultNamespace, access.Operator), b.newKey(defaultNamespace, access.Viewer)
	for path, forOperator := range map[string]int{
		"/jobs:pause": 200, "/jobs:resume": 200, "/jobs:trigger": 200, "/jobs:delete": 403, "/jobs:relabel": 403,
		"/jobs:spread": 403, "/runs:cancel": 200,
	} {
		require.Equal(t, forOperator, b.callAs(operator, "POST", path, `{"all":true,"dry_run":true}`).status, path)
		require.Equal(t, 403, b.callAs(viewer, "POST", path, `{"all":true,"dry_run":true}`).status, path)
	}
	const again = `{"all":true}`
	one := b.call("POST", "/jobs:trigger", again, "Idempotency-Key", "k").json(t)["id"]
	require.Equal(t, one, b.call("POST", "/jobs:trigger", again, "Idempotency-Key", "k").json(t)["id"])
	require.Equal(t, 1, b.counted(`SELECT count(*) FROM operation`))
}

// TestBulkChangesEachItemOnce, while many nodes work on the operation without regard for each other, and connections
// break in the middle of a transaction.
func TestBulkChangesEachItemOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const count = 60
	b.makeMany(count)
	_, err := b.pool.Exec(t.Context(), `
		CREATE SEQUENCE tries;
		GRANT USAGE ON SEQUENCE tries TO PUBLIC;
		CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		    IF nextval('public.tries') % 13 = 0 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
		    RETURN NEW;
		END $$;
		CREATE TRIGGER break AFTER INSERT ON run FOR EACH ROW EXECUTE FUNCTION break()`)
	require.NoError(t, err)
	op := b.begin("/jobs:trigger", `{"all":true,"rate":1000}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var nodes sync.WaitGroup
	broken := make([]int, 4)
	for i := range broken {
		nodes.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.store.WorkOperation(ctx); err != nil {
					broken[i]++
				}
				// No reservation and no pause holds.
				_, _ = b.pool.Exec(ctx, `UPDATE operation SET next_at = now(), failures = 0 WHERE state = 'running'`)
			}
		})
	}
	for b.call("GET", op, "").json(t)["state"] == "running" {
		require.NoError(t, ctx.Err())
	}
	cancel()
	nodes.Wait()
	done := b.call("GET", op, "").json(t)
	require.Equal(t, "finished", done["state"])
	require.EqualValues(t, count, done["done"], "%v", done)
	require.EqualValues(t, 0, done["failed"])
	require.Equal(t, count, b.counted(`SELECT count(*) FROM run WHERE origin = 1`))
	require.Equal(t, count, b.counted(`SELECT count(DISTINCT job_id) FROM run`))
	require.Positive(t, broken[0]+broken[1]+broken[2]+broken[3], "connections did break")
}

// TestAnItemThatKeepsFailingHoldsUpNoOther: it counts as failed after some tries.
func TestAnItemThatKeepsFailingHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.makeMany(3)
	_, err := b.pool.Exec(t.Context(), `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no such luck'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON job FOR EACH ROW WHEN (OLD.name = 'job-01') EXECUTE FUNCTION refuse()`)
	require.NoError(t, err)
	op := b.begin("/jobs:pause", `{"all":true}`)
	for range 3 {
		b.due()
		_, err := b.store.WorkOperation(t.Context())
		require.ErrorContains(t, err, "no such luck")
	}
	done := b.finish(op)
	require.Equal(t, "finished", done["state"])
	require.EqualValues(t, 2, done["done"])
	require.EqualValues(t, 1, done["failed"])
	item := b.call("GET", op+"/items", "").json(t)["items"].([]any)[0].(map[string]any)
	require.Equal(t, ids[1], item["job"])
	require.Equal(t, "job-01", item["name"])
	require.NotContains(t, item["error"], "luck", "what the error says stays inside")
}

func TestSpreadInBulk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 40 {
		b.make(fmt.Sprintf(`{"name":"hourly-%02d","schedule":"0 * * * *","target":{"kind":"noop"}}`, i))
	}
	b.make(`{"name":"other","schedule":"17 * * * *","target":{"kind":"noop"}}`)
	a := b.call("POST", "/jobs:spread", `{"all":true,"dry_run":true}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	var preview struct {
		Count  int64 `json:"count"`
		Spread struct {
			Before, After []int64
			Changed       int64
			Exact         bool
		}
	}
	require.NoError(t, json.Unmarshal(a.body, &preview))
	peak := func(counts []int64) (most, total int64) {
		for _, n := range counts {
			most, total = max(most, n), total+n
		}
		return most, total
	}
	require.EqualValues(t, 41, preview.Count)
	require.EqualValues(t, 40, preview.Spread.Changed)
	require.True(t, preview.Spread.Exact)
	most, total := peak(preview.Spread.Before)
	require.EqualValues(t, 40, most)
	require.EqualValues(t, 40*24, total, "of the jobs that change")
	most, total = peak(preview.Spread.After)
	require.Less(t, most, int64(10))
	require.EqualValues(t, 40*24, total, "none is lost")

	require.EqualValues(t, 40, b.finish(b.begin("/jobs:spread", `{"all":true,"rate":1000}`))["done"])
	require.Equal(t, 40, b.counted(`SELECT count(*) FROM job WHERE version = 2 AND schedule LIKE '%"H * * * *"%'`))
	require.Equal(t, 1, b.counted(`SELECT count(*) FROM job WHERE version = 1`))
	require.Equal(t, 200, b.call("POST", "/jobs/hourly-00:rollback", `{"version":1}`).status)
	require.EqualValues(t, 41, b.finish(b.begin("/jobs:spread", `{"all":true,"jitter":"10m"}`))["done"])
	require.Equal(t, 41, b.counted(`SELECT count(*) FROM job WHERE jitter_ms = 600000`))
	require.EqualValues(t, 0, b.finish(b.begin("/jobs:spread", `{"all":true,"jitter":"5m"}`))["done"])
	require.Equal(t, 41, b.counted(`SELECT count(*) FROM job WHERE jitter_ms = 600000`), "they have more already")
}

// TestSpreadOfAMinute changes the jobs that are due in a minute, and no others.
func TestSpreadOfAMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 20 {
		b.make(fmt.Sprintf(`{"name":"nightly-%02d","schedule":"0 2 * * *","target":{"kind":"noop"}}`, i))
	}
	b.make(`{"name":"earlier","schedule":"0 1 * * *","target":{"kind":"noop"}}`)
	b.make(`{"name":"heartbeat","schedule":"every 1s","target":{"kind":"noop"}}`)
	b.make(`{"name":"often","schedule":"every 1m","target":{"kind":"noop"}}`)
	now, err := b.store.Now(t.Context(), defaultNamespace)
	require.NoError(t, err)
	from := now.UTC().Truncate(24 * time.Hour).Add(26 * time.Hour)
	minute := fmt.Sprintf(`"due_from":%q,"due_to":%q`, from.Format(time.RFC3339), from.Add(time.Minute).Format(time.RFC3339))
	for _, how := range []string{"", `"jitter":"10m",`} {
		preview := b.call("POST", "/jobs:spread", `{"all":true,`+how+minute+`,"dry_run":true}`).json(t)
		spread := preview["spread"].(map[string]any)
		require.EqualValues(t, 20, spread["changed"], "how: %q", how)
		require.Equal(t, true, spread["exact"], "frequent jobs, which do not change, cost nothing")
		most := func(field string) (n float64) {
			for _, v := range spread[field].([]any) {
				n = max(n, v.(float64))
			}
			return n
		}
		require.InDelta(t, 20, most("before"), 0, "only the jobs that change are counted")
		require.Less(t, most("after"), 20.0)
	}
	op := b.begin("/jobs:spread", `{"all":true,"jitter":"10m",`+minute+`,"rate":1000}`)
	done := b.finish(op)
	require.EqualValues(t, 20, done["count"])
	require.EqualValues(t, 20, done["done"])
	require.Equal(t, from.Format(time.RFC3339), done["filter"].(map[string]any)["due_from"])
	require.Equal(t, 20, b.counted(`SELECT count(*) FROM job WHERE jitter_ms = 600000 AND name LIKE 'nightly-%'`))
	require.Equal(t, 3, b.counted(`SELECT count(*) FROM job WHERE version = 1`))
	for _, body := range []string{`{"all":true,"due_from":"2030-01-01T00:00:00Z"}`, `{"all":true,"due_to":"2030-01-01T00:00:00Z"}`} {
		require.Equal(t, 422, b.call("POST", "/jobs:spread", body).status, body)
	}
}

// TestUndoOfAnOperation restores the versions before it, except of jobs that were changed since.
func TestUndoOfAnOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.makeMany(6)
	op := b.begin("/jobs:relabel", `{"filter":{"label":["team=t1"]},"set":{"team":"ops"},"rate":1000}`)
	require.Equal(t, 409, b.call("POST", op+":undo", "{}").status, "it is running")
	require.EqualValues(t, 3, b.finish(op)["done"])
	require.Equal(t, 200, b.call("PATCH", "/jobs/"+ids[3], `{"description":"changed since"}`).status)
	require.Equal(t, 204, b.call("DELETE", "/jobs/"+ids[5], "").status)

	preview := b.call("POST", op+":undo", `{"dry_run":true}`)
	require.Equal(t, 200, preview.status, "%s", preview.body)
	require.EqualValues(t, 1, preview.json(t)["count"], "the others were changed since")
	require.Equal(t, ids[1], preview.json(t)["sample"].([]any)[0].(map[string]any)["id"])
	operator := b.newKey(defaultNamespace, access.Operator)
	require.Equal(t, 403, b.callAs(operator, "POST", op+":undo", "{}").status)

	undo := b.begin(op+":undo", `{"note":"wrong team","rate":1}`)
	done := b.finish(undo)
	require.Equal(t, "undo", done["kind"])
	require.Equal(t, map[string]any{"operation": op[len("/operations/"):]}, done["filter"])
	require.EqualValues(t, 3, done["count"])
	require.EqualValues(t, 1, done["done"], "%v", done)
	require.EqualValues(t, 2, done["failed"])
	restored := b.call("GET", "/jobs/"+ids[1], "").json(t)
	require.Equal(t, map[string]any{"team": "t1"}, restored["labels"])
	require.EqualValues(t, 3, restored["version"], "the undo is a version too")
	why := map[string]any{}
	for _, i := range b.call("GET", undo+"/items", "").json(t)["items"].([]any) {
		why[i.(map[string]any)["job"].(string)] = i.(map[string]any)["error"]
	}
	require.Equal(t, map[string]any{
		ids[3]: "it was changed since: it has version 3, and the operation wrote version 2", ids[5]: "not found",
	}, why)
	require.Equal(t, map[string]any{"team": "ops"}, b.call("GET", "/jobs/"+ids[3], "").json(t)["labels"])
	require.Equal(t, 1, b.counted(`SELECT count(*) FROM audit_log WHERE action = 'job.rollback'`))
	require.EqualValues(t, 0, b.call("POST", op+":undo", `{"dry_run":true}`).json(t)["count"], "nothing is left to undo")

	done = b.finish(b.begin(undo+":undo", `{}`))
	require.EqualValues(t, 1, done["done"], "an undo can be undone")
	require.Equal(t, map[string]any{"team": "ops"}, b.call("GET", "/jobs/"+ids[1], "").json(t)["labels"])
	paused := b.begin("/jobs:pause", `{"all":true}`)
	b.finish(paused)
	require.Equal(t, 409, b.call("POST", paused+":undo", "{}").status, "a pause writes no versions")
	require.Equal(t, 404, b.call("POST", "/operations/op_06f8m2tq5dtk1e7n9q0c3s5v7g:undo", "{}").status)
}

func TestRunsInBulk(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	id := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	other := n.create("other", yearly, "/no", `"overlap":"allow"`)
	for range 3 {
		n.trigger(id)
	}
	n.trigger(other)
	b := &bundle{t: t, pool: n.pool, store: n.store, url: n.url, key: n.key}
	preview := b.preview("/runs:cancel", `{"filter":{"job":"bad"},"dry_run":true}`)
	require.EqualValues(t, 3, preview["count"])
	require.Equal(t, "bad", preview["sample"].([]any)[0].(map[string]any)["name"])
	preview = b.preview("/runs:cancel", `{"all":true,"dry_run":true}`)
	require.EqualValues(t, 4, preview["count"])

	op := b.begin("/runs:cancel", `{"filter":{"job":"bad"},"rate":2}`)
	later := n.trigger(id)
	done := b.finish(op)
	require.EqualValues(t, 3, done["done"], "%v", done)
	require.Equal(t, map[string]any{"job": id}, done["filter"])
	require.Equal(t, "due", n.get("/runs/" + later)["state"], "it was due later")
	require.Equal(t, 3, b.counted(`SELECT count(*) FROM run_history WHERE ended = 3`))
	done = b.finish(b.begin("/runs:cancel", `{"all":true,"rate":1000}`))
	require.EqualValues(t, 2, done["done"])
	op = b.begin("/runs:cancel", fmt.Sprintf(`{"ids":[%q]}`, later))
	require.EqualValues(t, 1, b.finish(op)["failed"])
	item := n.get(op + "/items")["items"].([]any)[0].(map[string]any)
	require.Equal(t, later, item["run"])
	require.Contains(t, item["error"], "the run has ended: cancelled")

	stop := n.work()
	n.die(id, 3)
	stop()
	n.set("/no", 200)
	op = b.begin("/runs:retry", `{"filter":{"state":["failed"]},"rate":2}`)
	done = b.finish(op)
	require.EqualValues(t, 3, done["done"], "%v", done)
	require.Equal(t, 3, b.counted(`SELECT count(*) FROM run WHERE origin = 4`))
	require.Zero(t, b.counted(`SELECT count(*) FROM dead_letter`))
}

// TestIDsAreChangedOnce: an id that is sent twice counts once, and runs that ran again since are not retried.
func TestIDsAreChangedOnce(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	id := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	defer n.work()()
	n.die(id, 2)
	n.set("/no", 200)
	b := &bundle{t: t, pool: n.pool, store: n.store, url: n.url, key: n.key}
	var runs []string
	var attempts []any
	for _, r := range n.get("/runs?state=failed")["items"].([]any) {
		runs = append(runs, r.(map[string]any)["id"].(string))
		attempts = append(attempts, r.(map[string]any)["attempt"])
	}
	require.Len(t, runs, 2)
	seen := fmt.Sprintf(`,"attempts":[%v,%v,%v]}`, attempts[0], attempts[1], attempts[0])
	ids := fmt.Sprintf(`{"ids":[%q,%q,%q]`, runs[0], runs[1], runs[0])
	key, err := job.ParseRunID(runs[0])
	require.NoError(t, err)
	key.DueAt = key.DueAt.Add(-time.Hour)
	gone := job.FormatRunID(key)
	preview := b.call("POST", "/runs:retry", fmt.Sprintf(`{"ids":[%q,%q,%q],"dry_run":true}`, runs[0], gone, runs[0]))
	require.Equal(t, 200, preview.status, "%s", preview.body)
	require.EqualValues(t, 1, preview.json(t)["count"], "one of them exists")

	first, same := b.begin("/runs:retry", ids+seen), b.begin("/runs:retry", ids+`}`)
	require.EqualValues(t, 2, n.get(first)["count"])
	require.EqualValues(t, 2, b.finish(first)["done"])
	for _, r := range runs {
		n.await("/runs/"+r, "state", "succeeded")
	}
	later, stale := b.begin("/runs:retry", ids+`}`), b.begin("/runs:retry", ids+seen)
	for op, want := range map[string]string{
		same: "it ended again after the operation began", later: "it was retried and succeeded",
		stale: "the run last ended with attempt",
	} {
		done := b.finish(op)
		require.EqualValues(t, 0, done["done"], "%v", done)
		require.EqualValues(t, 2, done["failed"], "%v", done)
		item := n.get(op + "/items")["items"].([]any)[0].(map[string]any)
		require.Contains(t, item["error"], want)
	}
	require.Zero(t, b.counted(`SELECT count(*) FROM run`))
	require.Equal(t, 2, b.counted(`SELECT count(*) FROM run_history WHERE ended = 1`))

	done := b.finish(b.begin("/jobs:trigger", fmt.Sprintf(`{"ids":[%q,%q]}`, id, id)))
	require.EqualValues(t, 1, done["done"], "%v", done)
}

// TestTheAuditSaysWhatAnOperationChanges: its entry has all that the request said.
func TestTheAuditSaysWhatAnOperationChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now, err := b.store.Now(t.Context(), defaultNamespace)
	require.NoError(t, err)
	until := now.Add(24 * time.Hour).Truncate(time.Second).Format(time.RFC3339)
	for path, body := range map[string]string{
		"/jobs:relabel": `{"all":true,"set":{"team":"ops"},"remove":["owner"]}`,
		"/jobs:spread":  `{"all":true,"jitter":"5m"}`,
		"/jobs:pause":   `{"all":true,"until":"` + until + `","note":"move"}`,
	} {
		b.begin(path, body)
	}
	page, err := b.store.Audit(t.Context(), access.AuditParams{Namespace: defaultNamespace, Limit: 3})
	require.NoError(t, err)
	var all string
	for _, e := range page.Entries {
		all += e.Detail
	}
	for _, want := range []string{
		`"set":{"team":"ops"}`, `"remove":["owner"]`, `"jitter":"5m`, `"until":"` + until + `"`, `"note":"move"`,
	} {
		require.Contains(t, all, want)
	}
}
