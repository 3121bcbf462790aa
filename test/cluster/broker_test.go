package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// TestBroker (F25): while runs go to a broker, it is killed and restarted, its replies are lost, and so are messages to
// it. Each run that succeeded is in the broker. Then the broker is wiped, and the command line runs that window again:
// all runs are there.
func TestBroker(t *testing.T) {
	t.Parallel()
	for name, kind := range brokerKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testBroker(t, kind)
		})
	}
}

func testBroker(t *testing.T, kind brokerKind) {
	f := form{faults: 6, seconds: 16, jobs: 50}.long()
	b := newBrokerServer(t, kind.service)
	kind.make(t, b.address())
	keys, err := seal.New()
	require.NoError(t, err)
	text, err := keys.Text()
	require.NoError(t, err)
	c := newCluster(t, setup{nodes: 2, api: true, env: []string{"BELFRY_SECRETS_KEYSET=" + text}})
	c.store = pgtest.StoreOf(postgres.New(c.pool, postgres.Options{Sealer: keys}))
	kind.set(c, b.proxy.Address())
	c.create(f.jobs, f.duration(), func(_ int, in *job.NewJob) {
		in.Definition.Target = job.Target{Kind: kind.target, Config: json.RawMessage(kind.config)}
		in.Definition.Retry = job.Retry{
			MaxAttempts: 100, Backoff: job.BackoffFixed, Base: job.Duration(250 * time.Millisecond),
		}
	})
	var faults [3]int
	begun := c.now()
	every(f.duration(), f.faults, func(i int) {
		faults[i%3]++
		fault := b.proxy.Lose // messages arrive, and their replies are lost
		// This is first, because a broker may take long to restart.
		if i%3 == 0 {
			fault = b.proxy.Swallow // messages are sent, and do not arrive
		}
		fault()
		<-time.After(1100 * time.Millisecond) // so that runs of at least one second are affected
		if i%3 == 2 {
			b.kill()
		}
		b.proxy.Cut()
		if i%3 == 2 {
			b.start()
		}
	})
	c.finish(3 * time.Minute)
	succeeded := c.succeeded()
	there := kind.read(t, b.address())
	again := c.triedAgain()
	t.Log(tally(
		fmt.Sprintf("%s: %d times lost messages, %d times lost answers, %d kills, %d runs retried", kind.service,
			faults[0], faults[1], faults[2], again),
		succeeded, there,
	))
	require.Positive(t, again, "the faults have hit nothing")
	require.Zero(t, c.missing(), "occurrences that did not succeed")
	requireThere(t, succeeded, there)

	b.wipe()
	b.start()
	kind.make(t, b.address())
	require.Empty(t, kind.read(t, b.address()))
	_, key, err := c.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "ann", Role: access.Operator, Actor: "test",
	})
	require.NoError(t, err)
	retry := exec.CommandContext(t.Context(), binary, "run", "retry", "--state", "succeeded", "--ended-from",
		begun.Format(time.RFC3339), "-o", "json")
	retry.Env = append(os.Environ(), "BELFRY_SERVER=http://"+c.nodes[0].listen, "BELFRY_KEY="+key)
	said, err := retry.Output()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), fmt.Sprintf(`"done": %d,`, len(succeeded)))
	c.finish(3 * time.Minute)
	there = kind.read(t, b.address())
	t.Log(tally(kind.service+": wiped, all redriven", succeeded, there))
	requireThere(t, succeeded, there)
}

// missing counts the seconds between the creation of a job and the end for which no run succeeded.
func (c *cluster) missing() (n int) {
	const query = `
SELECT count(*)
FROM job j, generate_series(
    date_trunc('second', j.created_at) + interval '1 s', $1::timestamptz - interval '1 s', interval '1 s') due
WHERE NOT EXISTS (SELECT FROM run_history h WHERE h.job_id = j.id AND h.due_at = due AND h.seq = 0 AND h.ended = 1)`
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), query, c.end).Scan(&n))
	return n
}

// triedAgain counts the runs with more than one attempt.
func (c *cluster) triedAgain() (n int) {
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT count(*) FROM run_history WHERE attempt > 1`).Scan(&n))
	return n
}

// succeeded are the runs that succeeded by the ledger, by their ids.
func (c *cluster) succeeded() map[string]job.Key {
	rows, err := c.pool.Query(c.t.Context(),
		`SELECT DISTINCT partition, job_id, due_at, seq FROM run_history WHERE ended = 1`)
	require.NoError(c.t, err)
	defer rows.Close()
	out := map[string]job.Key{}
	for rows.Next() {
		var k job.Key
		var id uuid.UUID
		require.NoError(c.t, rows.Scan(&k.Partition, &id, &k.DueAt, &k.Seq))
		k.Job = id
		out[job.FormatRunID(k)] = k
	}
	require.NoError(c.t, rows.Err())
	return out
}

func requireThere(t *testing.T, succeeded map[string]job.Key, there map[string]int) {
	t.Helper()
	lost := 0
	for id := range succeeded {
		if there[id] == 0 {
			lost++
		}
	}
	require.Zero(t, lost, "runs that succeeded and are not in the broker")
	for id := range there {
		require.Contains(t, succeeded, id, "the broker has a run that the ledger does not know as succeeded")
	}
}

func tally(what string, succeeded map[string]job.Key, there map[string]int) string {
	messages, lost := 0, 0
	for _, n := range there {
		messages += n
	}
	for id := range succeeded {
		if there[id] == 0 {
			lost++
		}
	}
	return fmt.Sprintf("%s: %d runs succeeded, %d in the broker, %d messages (%d twice or more), lost %d", what,
		len(succeeded), len(there), messages, messages-len(there), lost)
}
