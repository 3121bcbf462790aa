package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// operate runs operations as a node does, until the test ends or calls stop.
func (n *node) operate() (stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			worked, err := n.store.WorkOperation(ctx)
			if err != nil && ctx.Err() == nil {
				n.t.Errorf("work on an operation: %v", err)
				return
			}
			if !worked {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	n.t.Cleanup(stop)
	return stop
}

// die creates dead letters with a job whose runs fail at once.
func (n *node) die(id string, count int) (runs []string) {
	n.t.Helper()
	for range count {
		runs = append(runs, n.trigger(id))
	}
	for _, run := range runs {
		n.await("/runs/"+run, "dead_letter", true)
	}
	return runs
}

func TestDeadLettersOneByOne(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	bad := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	lost := n.create("late", yearly, "/later", `"overlap":"allow","queue":"slow","retry":{"max_attempts":1}`)
	rejected, worn := n.die(bad, 5), n.die(lost, 4)

	for path, want := range map[string]int{
		"/dead-letters?page_size=2":                                           9,
		"/dead-letters?page_size=2&job=bad":                                   5,
		"/dead-letters?page_size=2&job=bad&queue=slow":                        0,
		"/dead-letters?page_size=2&queue=slow":                                4,
		"/dead-letters?page_size=2&reason=rejected":                           5,
		"/dead-letters?page_size=2&reason=attempts&queue=slow":                4,
		"/dead-letters?page_size=2&failed_from=2100-01-01T00:00:00Z":          0,
		"/dead-letters?page_size=2&failed_to=2100-01-01T00:00:00Z":            9,
		"/dead-letters?page_size=2&failed_to=2020-01-01T00:00:00Z":            0,
		"/dead-letters?page_size=2&job=late&failed_from=2020-01-01T00:00:00Z": 4,
	} {
		items, _ := n.all(path)
		require.Len(t, items, want, path)
		seen := map[any]bool{}
		for i, item := range items {
			seen[item["run"]] = true
			if i > 0 {
				newer := timeOf(t, item["failed_at"]).After(timeOf(t, items[i-1]["failed_at"]))
				require.False(t, newer, "%s: the newest first", path)
			}
		}
		require.Len(t, seen, want, "%s: none twice", path)
	}

	require.Equal(t, 204, n.call("POST", "/dead-letters/"+rejected[0]+":discard", "").status)
	require.Equal(t, 404, n.call("POST", "/dead-letters/"+rejected[0]+":discard", "").status)
	require.Equal(t, 404, n.call("POST", "/dead-letters/"+rejected[0]+":redrive", "").status)
	got := n.get("/runs/" + rejected[0])
	require.Equal(t, "failed", got["state"], "history keeps it")
	require.Equal(t, false, got["dead_letter"])

	n.set("/later", 200)
	a := n.call("POST", "/dead-letters/"+worn[0]+":redrive", "")
	require.Equal(t, 202, a.status, "%s", a.body)
	got = n.await("/runs/"+worn[0], "state", "succeeded")
	require.EqualValues(t, 2, got["attempt"], "counted on")
	items, _ := n.all("/dead-letters?page_size=2")
	require.Len(t, items, 7)

	viewer := n.newKey(defaultNamespace, access.Viewer)
	require.Equal(t, 403, n.callAs(viewer, "POST", "/dead-letters/"+worn[1]+":redrive", "").status)
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Empty(t, n.callAs(other, "GET", "/dead-letters", "").json(t)["items"])
	require.Equal(t, 404, n.callAs(other, "POST", "/dead-letters/"+worn[1]+":discard", "").status)
}

func TestDeadLettersInBulk(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	bad := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	gone := n.create("gone", yearly, "/no", `"overlap":"allow"`)
	n.die(bad, 6)
	n.die(gone, 2)
	require.Equal(t, 204, n.call("DELETE", "/jobs/gone", "").status)
	n.set("/no", 200)

	require.Equal(t, 422, n.call("POST", "/dead-letters:redrive", `{}`).status, "without a filter one has to say all")
	require.Equal(t, 422, n.call("POST", "/dead-letters:redrive", `{"all":true,"rate":5000}`).status)
	viewer := n.newKey(defaultNamespace, access.Viewer)
	require.Equal(t, 403, n.callAs(viewer, "POST", "/dead-letters:redrive", `{"all":true}`).status)
	a := n.call("POST", "/dead-letters:redrive", `{"reason":"rejected","rate":4}`)
	require.Equal(t, 202, a.status, "%s", a.body)
	op := a.json(t)
	require.EqualValues(t, 8, op["count"])
	require.Equal(t, "running", op["state"])
	require.Equal(t, map[string]any{"reason": "rejected"}, op["filter"])

	// A batch has the runs of one second, and the next batch is due when that second is over. No batch is worked on before
	// it is due: here that is much later, because a busy machine may take more than a second until it is tried.
	var begun time.Time
	var paced bool
	require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&begun))
	worked, err := n.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.True(t, worked)
	require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT next_at - interval '1 s' BETWEEN $1 AND now() FROM operation`,
		begun).Scan(&paced))
	require.True(t, paced)
	n.exec(`UPDATE operation SET next_at = next_at + interval '1 h'`)
	worked, err = n.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.False(t, worked, "paced")
	n.exec(`UPDATE operation SET next_at = next_at - interval '1 h'`)
	path := "/operations/" + op["id"].(string)
	op = n.get(path)
	require.EqualValues(t, 4, op["done"])
	require.InDelta(t, 0.5, op["progress"], 0.001)

	stop := n.operate()
	op = n.await(path, "state", "finished")
	stop()
	require.EqualValues(t, 6, op["done"])
	require.EqualValues(t, 2, op["failed"], "their job is deleted")
	require.EqualValues(t, 1, op["progress"])
	require.NotEmpty(t, op["ended_at"])
	n.awaitCount("/runs?state=succeeded&page_size=10", 6)
	items, _ := n.all("/dead-letters?page_size=5")
	require.Len(t, items, 2)
	require.Equal(t, 409, n.call("POST", path+":abort", "").status, "it is finished")

	// After an abort the remaining dead letters stay.
	n.set("/no", 400)
	n.die(bad, 3)
	a = n.call("POST", "/dead-letters:discard", `{"job":"bad","rate":1}`)
	require.Equal(t, 202, a.status, "%s", a.body)
	path = "/operations/" + a.json(t)["id"].(string)
	worked, err = n.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.True(t, worked)
	require.Equal(t, 200, n.call("POST", path+":abort", "").status)
	op = n.get(path)
	require.Equal(t, "aborted", op["state"])
	n.exec(`UPDATE operation SET next_at = now()`)
	worked, err = n.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.False(t, worked)
	items, _ = n.all("/dead-letters?page_size=5&job=bad")
	require.Len(t, items, 2)

	n.operate()
	a = n.call("POST", "/dead-letters:discard", `{"all":true,"rate":1000}`)
	require.Equal(t, 202, a.status)
	n.await("/operations/"+a.json(t)["id"].(string), "state", "finished")
	items, _ = n.all("/dead-letters?page_size=5")
	require.Empty(t, items)
	items, _ = n.all("/operations?page_size=1")
	require.Len(t, items, 3)
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Empty(t, n.callAs(other, "GET", "/operations", "").json(t)["items"])
	require.Equal(t, 404, n.callAs(other, "GET", path, "").status)
}

// TestAnOperationSurvivesItsNode: an interrupted transaction leaves nothing half done, and the next node
// continues the operation.
func TestAnOperationSurvivesItsNode(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	n.die(n.create("bad", yearly, "/no", `"overlap":"allow"`), 3)
	a := n.call("POST", "/dead-letters:discard", `{"all":true,"rate":1000}`)
	require.Equal(t, 202, a.status)
	path := "/operations/" + a.json(t)["id"].(string)
	// Another node works on the operation. This one leaves it alone until the other's connection is gone.
	tx, err := n.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT id FROM operation FOR UPDATE`)
	require.NoError(t, err)
	worked, err := n.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.False(t, worked)
	require.NoError(t, tx.Rollback(t.Context()))
	n.operate()
	require.EqualValues(t, 3, n.await(path, "state", "finished")["done"])
}
