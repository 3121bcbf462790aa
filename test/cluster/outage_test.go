package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestOutage: PostgreSQL is down for longer than sessions last, while nodes and workers work on attempts. Half of them
// must not be repeated. All processes get their sessions back, no attempt is repeated, and all succeed.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]func(*cluster, time.Duration) time.Time{"Killed": killDatabase, "Frozen": freezeDatabase} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := outage{
				attempts: number("ATTEMPTS", 60), lasts: time.Duration(number("ATTEMPT_SECONDS", 15)) * time.Second,
				down: time.Duration(number("DOWN", 8)) * time.Second,
			}
			o.run(t, down, name == "Killed")
		})
	}
}

// killDatabase kills PostgreSQL and starts it again after a while.
func killDatabase(c *cluster, down time.Duration) time.Time {
	at, err := c.crash(c.t.Context(), true, down)
	require.NoError(c.t, err)
	return at
}

// freezeDatabase stops PostgreSQL for a while: connections stay open, and nothing answers.
func freezeDatabase(c *cluster, down time.Duration) time.Time {
	pids := c.db.processes()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // some may have ended
	}
	<-time.After(down)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return clock.Now()
}

// outage is the size of the test.
type outage struct {
	attempts    int
	lasts, down time.Duration
}

func (o outage) run(t *testing.T, down func(*cluster, time.Duration) time.Time, pull bool) {
	c := newCluster(t, setup{
		nodes: 3, own: true, api: true, slow: func(*rand.Rand) time.Duration { return o.lasts },
		env: []string{
			// One host may use three fifths of them, and a node that starts first owns all partitions for a second.
			"BELFRY_SLOTS=" + strconv.Itoa(2*o.attempts),
			// less than the outage. A worker gives up its runs if a heartbeat takes half as long.
			"BELFRY_WORKER_TTL=7s",
		},
	})
	o.create(c, pull)
	inFlight := func() bool { return len(c.sink.all()) == o.attempts }
	ctx, cancel := context.WithTimeout(t.Context(), allowed(time.Minute))
	defer cancel()
	require.NoError(t, until(ctx, inFlight), "not all attempts began: %d", len(c.sink.all()))
	before := c.sessions(`true`)
	// One node comes back later than the others, after they could have rescued its attempts.
	late := c.nodes[1].cmd.Process // the worker talks to the first
	require.NoError(t, late.Signal(syscall.SIGSTOP))
	back := down(c, o.down)
	renewed := func(n int) func() bool {
		return func() bool { return len(c.sessions(`expires_at > now() AND queue_id IS NULL`)) >= n }
	}
	require.NoError(t, until(ctx, renewed(2)))
	revived := clock.Now().Sub(back)
	var alive time.Duration
	const counted = `SELECT alive FROM cluster`
	require.NoError(t, c.pool.QueryRow(t.Context(), counted).Scan(&alive))
	require.NoError(t, until(ctx, func() bool { // not by a clock: after ten seconds of this time its session would end
		var now time.Duration
		err := c.pool.QueryRow(ctx, counted).Scan(&now)
		return err == nil && now >= alive+time.Second
	}))
	require.NoError(t, late.Signal(syscall.SIGCONT))
	require.NoError(t, until(ctx, renewed(3)))
	c.end = c.now()
	c.finish(o.lasts + allowed(time.Minute))
	require.Subset(t, before, c.sessions(`queue_id IS NULL`), "a node lost its session")

	var succeeded, dead, repeated int
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 1), (SELECT count(*) FROM dead_letter),
		(SELECT count(*) FROM run_history WHERE attempt > 1)`).Scan(&succeeded, &dead, &repeated))
	t.Logf("attempts=%d down=%s duplicates=%d dead_letters=%d repeated=%d succeeded=%d sessions_back=%s", o.attempts,
		o.down, len(c.sink.all())-o.attempts, dead, repeated, succeeded, revived.Round(time.Millisecond))
	require.Equal(t, []int{o.attempts, o.attempts, 0, 0}, []int{len(c.sink.all()), succeeded, dead, repeated})
}

// create creates jobs with one run each that is due at the same time. A tenth of them are pulled by a worker.
func (o outage) create(c *cluster, pull bool) {
	if pull {
		w := c.workers()
		cmd := w.start("", o.attempts)
		c.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	at := c.now().Add(5*time.Second + time.Duration(o.attempts)*5*time.Millisecond)
	c.create(o.attempts, 0, func(i int, in *job.NewJob) {
		in.Definition.Schedule = schedule.Spec{At: at.UTC().Format(time.RFC3339)}
		in.Definition.Timeout = job.Duration(o.lasts + 5*time.Minute)
		if i%2 == 0 {
			in.Definition.Delivery = job.AtMostOnce
		}
		if pull && i%10 < 2 {
			pulled(i, in)
		}
	})
}

// sessions lists the sessions that a condition selects.
func (c *cluster) sessions(condition string) []uuid.UUID {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), fmt.Sprintf(`SELECT id FROM session WHERE %s`, condition))
	if err != nil {
		return nil // the database is not back yet
	}
	ids, _ := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return ids
}
