package cluster_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// crash kills the database and restarts it after a while. It returns when the database accepted connections again.
func (c *cluster) crash(ctx context.Context, all bool, away time.Duration) (accepted time.Time, err error) {
	if err := c.db.kill(all); err != nil {
		return accepted, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(away):
	}
	return c.db.start(ctx)
}

// TestDatabaseKill9: PostgreSQL is killed while runs are due, sometimes for longer than sessions last. No run is lost,
// and runs start soon after it is back.
func TestDatabaseKill9(t *testing.T) {
	t.Parallel()
	f := form{faults: 2, seconds: 30, jobs: 50}.long()
	c := newCluster(t, setup{nodes: 3, own: true})
	c.create(f.jobs, f.duration()+5*time.Second, spread) // runs are due after the last crash too
	var accepted []time.Time
	every(f.duration(), f.faults, func(i int) {
		away := time.Duration(i%2) * (ttl + 2*time.Second)
		at, err := c.crash(t.Context(), i%2 == 1, away)
		require.NoError(t, err)
		accepted = append(accepted, at)
	})
	c.finish(2 * time.Minute)
	firing := c.firing(accepted...)
	r := c.check()
	t.Logf("database kills=%d, firing again after %s", len(accepted), firing)
	t.Logf("lateness %s", c.lateness())
	t.Log(r)
	c.clean(r)
	require.LessOrEqual(t, firing.percentile(100), allowed(5*time.Second))
}

// TestTerminated: all connections of the nodes are terminated every two seconds, whatever they are doing.
func TestTerminated(t *testing.T) {
	t.Parallel()
	f := form{faults: 7, seconds: 14, jobs: 100}.long()
	c := newCluster(t, setup{nodes: 3})
	c.create(f.jobs, f.duration()+5*time.Second, spread)
	var cut []time.Time
	ended := 0
	every(f.duration(), f.faults, func(int) {
		cut = append(cut, clock.Now())
		tag, err := c.pool.Exec(t.Context(),
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'belfry%' AND datname = `+
				`current_database()`)
		require.NoError(t, err)
		ended += int(tag.RowsAffected())
	})
	c.finish(patience)
	back := c.firing(cut...)
	r := c.check()
	t.Logf("cuts=%d of %d connections, back after %s", len(cut), ended, back)
	t.Logf("lateness %s", c.lateness())
	t.Log(r)
	c.clean(r)
	require.Positive(t, ended)
	if os.Getenv("KILLS") != "" { // otherwise it runs together with all other tests, and that each run ended proves it
		require.LessOrEqual(t, back.percentile(100), time.Second)
	}
}

// TestDatabaseFreeze: PostgreSQL is stopped for longer than sessions last, and then continues with statements of
// expired sessions.
func TestDatabaseFreeze(t *testing.T) {
	t.Parallel()
	f := form{faults: 1, seconds: 8, jobs: 100}.long()
	c := newCluster(t, setup{nodes: 3, own: true})
	c.create(f.jobs, f.duration()+2*ttl, spread)
	var thawed []time.Time
	every(f.duration(), f.faults, func(int) {
		pids := c.db.processes()
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // some may have ended
		}
		<-time.After(ttl + 2*time.Second)
		thawed = append(thawed, clock.Now())
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	c.finish(patience)
	back := c.firing(thawed...)
	r := c.check()
	late := c.lateness()
	t.Logf("freezes=%d, firing again after %s", len(thawed), back)
	t.Logf("lateness %s", late)
	t.Log(r)
	c.clean(r)
	require.Greater(t, late.percentile(100), ttl, "it stood still")
	require.LessOrEqual(t, back.percentile(100), allowed(5*time.Second))
}
