package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestAnOperationThatFailsKeepsNoOtherBack: other operations go on, the progress stays correct, and in the
// end the nodes give it up.
func TestAnOperationThatFailsKeepsNoOtherBack(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	stop := n.work()
	for _, name := range []string{"bad", "other", "worse"} {
		n.die(n.create(name, yearly, "/no", `"overlap":"allow"`), 3)
	}
	stop()
	begin := func(name string) string {
		a := n.call("POST", "/dead-letters:discard", fmt.Sprintf(`{"job":%q,"rate":2}`, name))
		require.Equal(t, 202, a.status, "%s", a.body)
		return "/operations/" + a.json(t)["id"].(string)
	}
	bad, other := begin("bad"), begin("other")
	n.refuse("bad")
	_, err := n.store.WorkOperation(t.Context())
	require.ErrorContains(t, err, "no such luck")
	n.works("the one behind it")
	op := n.get(bad)
	require.Equal(t, "running", op["state"])
	require.Contains(t, op["problem"], "P0001")
	require.NotContains(t, op["problem"], "no such luck", "what the error says stays inside")
	require.EqualValues(t, 0, op["done"])
	require.EqualValues(t, 2, n.get(other)["done"])

	n.exec(`DROP TRIGGER refuse ON dead_letter`)
	n.operate()
	op = n.await(bad, "state", "finished")
	require.EqualValues(t, 3, op["done"], "each once")
	require.EqualValues(t, 0, op["failed"])
	require.Empty(t, op["problem"])
	n.await(other, "state", "finished")
}

// TestAnOperationThatKeepsFailingIsGivenUp: the nodes give it up, with a reason that users see.
func TestAnOperationThatKeepsFailingIsGivenUp(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	stop := n.work()
	n.die(n.create("bad", yearly, "/no", `"overlap":"allow"`), 3)
	stop()
	a := n.call("POST", "/dead-letters:discard", `{"all":true,"rate":2}`)
	require.Equal(t, 202, a.status, "%s", a.body)
	path := "/operations/" + a.json(t)["id"].(string)
	n.works("two of three")
	n.refuse("bad")
	for range 10 {
		require.Equal(t, "running", n.get(path)["state"])
		n.exec(`UPDATE operation SET next_at = now()`)
		_, err := n.store.WorkOperation(t.Context())
		require.Error(t, err)
	}
	op := n.get(path)
	require.Equal(t, "failed", op["state"])
	require.Contains(t, op["problem"], "10 times in a row")
	require.NotEmpty(t, op["ended_at"])
	require.EqualValues(t, 2, op["done"])
	require.InDelta(t, 2.0/3, op["progress"], 0.001)
	n.exec(`UPDATE operation SET next_at = now()`)
	worked, err := n.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.False(t, worked)
	require.Equal(t, 409, n.call("POST", path+":abort", "").status)
}

// refuse makes it fail to delete the dead letters of a job.
func (n *node) refuse(name string) {
	n.t.Helper()
	var id string
	require.NoError(n.t, n.pool.QueryRow(n.t.Context(), `SELECT id::text FROM job WHERE name = $1`, name).Scan(&id))
	n.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no such luck'; END $$`)
	n.exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE DELETE ON dead_letter
		FOR EACH ROW WHEN (OLD.job_id = '%s') EXECUTE FUNCTION refuse()`, id))
}

func (n *node) works(what string) {
	n.t.Helper()
	worked, err := n.store.WorkOperation(n.t.Context())
	require.NoError(n.t, err, what)
	require.True(n.t, worked, what)
}

// TestARevokedKeyLeavesNoOperation: operations that a key began end with it, and those of others go on.
func TestARevokedKeyLeavesNoOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.makeMany(10)
	leaked := b.call("POST", "/keys", `{"name":"leaked","role":"editor"}`).json(t)
	begin := func(path string) string {
		a := b.callAs(leaked["secret"].(string), "POST", path, `{"all":true,"rate":1}`)
		require.Equal(t, 202, a.status, "%s", a.body)
		return "/operations/" + a.json(t)["id"].(string)
	}
	one, two := begin("/jobs:delete"), begin("/jobs:pause")
	ours := b.begin("/jobs:resume", `{"all":true,"rate":1}`)
	worked, err := b.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.True(t, worked)

	revoke := "/keys/" + leaked["id"].(string) + ":revoke"
	require.EqualValues(t, 2, b.call("POST", revoke, "").json(t)["aborted_operations"])
	for _, op := range []string{one, two} {
		got := b.call("GET", op, "").json(t)
		require.Equal(t, "aborted", got["state"])
		require.NotEmpty(t, got["ended_at"])
	}
	require.Equal(t, 1, b.counted(`SELECT count(*) FROM audit_log
		WHERE action = 'key.revoke' AND detail::jsonb->>'aborted_operations' = '2'`))
	before := b.counted(`SELECT count(*) FROM audit_log WHERE actor LIKE 'key:leaked%'`)
	b.finish(ours)
	require.Equal(t, before, b.counted(`SELECT count(*) FROM audit_log WHERE actor LIKE 'key:leaked%'`))
	require.EqualValues(t, 0, b.call("POST", revoke, "").json(t)["aborted_operations"], "again")

	// Another node may know the key for some seconds.
	_, err = b.store.BeginOperation(t.Context(), job.OperationParams{
		Namespace: defaultNamespace, Kind: job.DeleteJobs, Set: job.OperationSet{Jobs: &job.Filter{}}, Rate: 1,
		Actor: "key:leaked [" + leaked["id"].(string) + "]",
	})
	require.ErrorContains(t, err, "the key has been revoked")
}
