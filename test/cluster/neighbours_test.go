package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// attack is one way to take as much of the nodes as possible.
type attack struct {
	name   string // for ATTACK
	what   string
	number int
	begin  func(n int)
	took   func(effect) bool // whether it had an effect
}

func (a *attacker) attacks() []attack {
	held := func(n int) func(effect) bool { return func(c effect) bool { return c.Held >= n } }
	hosts, idle := number("HOSTS", 100), number("IDLE", 200)
	keys, bodies, flood := number("KEYS", 5), number("BODIES", 20), number("FLOOD", 500)
	polls := keys * number("POLLS", 10)
	return []attack{
		// no attack: what a good neighbour costs on this machine
		{"runs", "runs/s, answered in 50 ms", number("UNCONFIRMED", 100), a.answered, func(c effect) bool { return c.Done > 0 }},
		{"hosts", "silent hosts", hosts, a.silentHosts, held(hosts / 4)},
		{"broker", "runs/s, never confirmed", number("UNCONFIRMED", 100), a.unconfirmed, func(c effect) bool { return c.Done > 0 }},
		{"polls", fmt.Sprintf("long polls of %d keys", keys), polls, a.longPolls, held(polls / 4)},
		{"requests", "requests/s, refused", number("REQUESTS", 50), a.requests, func(c effect) bool { return c.Refused > 0 }},
		{"idle", "idle connections", idle, a.idle, held(idle / 4)},
		{"bodies", "trickled bodies", bodies, a.bodies, held(bodies / 4)},
		{"flood", "runs due at once", flood, a.flood, func(c effect) bool { return c.Done > 0 && a.known() >= min(flood, 100_000) }},
	}
}

// await waits until an attack has an effect. On a busy machine that may be after it was measured.
func (a *attacker) await(x attack) effect {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	err := until(ctx, func() bool { return x.took(a.effect()) })
	require.NoError(a.t, err, "%d %s have no effect: %+v", x.number, x.what, a.effect())
	return a.effect()
}

// known is how many runs of the attacker there were since the last attack.
func (a *attacker) known() (n int) {
	a.t.Helper()
	require.NoError(a.t, a.c.pool.QueryRow(a.t.Context(), `
SELECT (SELECT count(*) FROM run WHERE job_id IN (SELECT id FROM job WHERE namespace_id = $1))
     + (SELECT count(*) FROM run_history WHERE due_at >= $2 AND job_id IN (SELECT id FROM job WHERE namespace_id = $1))`,
		a.namespace, a.began).Scan(&n))
	return n
}

// period is how late the runs of the attacked namespace were for a while, by the clock of the database.
type period struct {
	started, ended figures
	bySecond       map[time.Time]figures // ended, by when they were due
	cpu            cpuTime
}

// slow is in how many seconds the runs that were due ended late: their p99 is more than twice that of others.
func (p period) slow(alone figures) (n int) {
	for _, f := range p.bySecond {
		if len(alone) > 0 && f.percentile(99) > 2*alone.percentile(99) {
			n++
		}
	}
	return n
}

// measure measures a while.
func (a *attacker) measure(d time.Duration) period {
	a.t.Helper()
	cpu, from := a.cpu(), a.c.now()
	<-time.After(d)
	p, to := period{cpu: a.cpu().minus(cpu)}, a.c.now()
	a.c.awaitEnded(to, 5*time.Minute)
	p.started, p.bySecond = a.c.late(from, to)
	for _, f := range p.bySecond {
		p.ended = append(p.ended, f...)
	}
	return p
}

// with is two periods as one, without their CPU time.
func (p period) with(q period) period {
	return period{started: slices.Concat(p.started, q.started), ended: slices.Concat(p.ended, q.ended)}
}

func (p period) row(what string, alone period, more string) string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	cell := func(f, g figures) string {
		ratio := "    -"
		if len(g) > 0 {
			ratio = fmt.Sprintf("%5.1f", f.percentile(99).Seconds()/g.percentile(99).Seconds())
		}
		return fmt.Sprintf("%8s %8s %s", ms(f.percentile(50)), ms(f.percentile(99)), ratio)
	}
	return fmt.Sprintf("%-32s %6d %s %s %s %s", what, len(p.ended), cell(p.started, alone.started),
		cell(p.ended, alone.ended), p.cpu, more)
}

// TestNeighbours: one namespace has runs every second, and another one attacks the nodes, in one way after the other.
// It prints how late the runs of the first are during each attack, and alone before and after it, and what used CPU time.
// The short form does not judge that, because it runs together with other tests. No run may be lost, each attack must
// have an effect, and the attacker must not have all slots of a node.
func TestNeighbours(t *testing.T) {
	long := number("NEIGHBOURS", 0) > 0
	if !long {
		t.Parallel()
	}
	slots := number("SLOTS", 60)
	s := setup{nodes: 3, api: true, slow: immediately, env: []string{
		fmt.Sprintf("BELFRY_SLOTS=%d", slots),
		"BELFRY_API_CONNECTIONS=2", // as for a database with few cores: each connection of the three nodes competes for them
	}}
	if long { // its own, because other programs may use the one that tests share
		s.on = newDatabase(t, "fsync=off", "shared_buffers=512MB", "max_wal_size=4GB",
			"shared_preload_libraries=pg_stat_statements")
	}
	c := newCluster(t, s)
	phase := time.Duration(number("SECONDS", 2)) * time.Second
	alone := phase
	if !long {
		alone = 0
	}
	a := newAttacker(t, c, phase+phase/5)
	if long {
		_, err := c.pool.Exec(t.Context(), `CREATE EXTENSION pg_stat_statements`)
		require.NoError(t, err)
	}
	c.create(number("JOBS", 20), time.Hour)
	began := c.now()
	c.awaitEnded(began.Add(3*time.Second), 5*time.Minute)
	only := regexp.MustCompile("^(" + cmp.Or(os.Getenv("ATTACK"), ".*") + ")$")
	t.Logf("%-39s %-23s %-23s %s", "", "from due to received", "from due to ended", "CPU time in seconds")
	t.Logf("%-32s %6s %8s %8s %5s %8s %8s %5s %7s %7s %7s %7s %7s", "attack", "runs",
		"p50", "p99", "ratio", "p50", "p99", "ratio", "nodes", "database", "attacker", "victim", "others")
	before := a.measure(alone)
	t.Log(before.row("alone", period{}, ""))
	for _, attack := range a.attacks() {
		if !only.MatchString(attack.name) {
			continue
		}
		a.began = c.now()
		attack.begin(attack.number)
		c.resetStatements()
		during := a.measure(phase)
		c.logStatements(number("STATEMENTS", 0))
		taken, effect := a.taken(slots), a.await(attack)
		a.stop()
		a.clear()
		after := a.measure(alone)
		t.Log(during.row(fmt.Sprintf("%d %s", attack.number, attack.what), before.with(after),
			fmt.Sprintf("slow=%d/%d slots=%d held=%d done=%d refused=%d", during.slow(before.with(after).ended),
				len(during.bySecond), taken, effect.Held, effect.Done, effect.Refused)))
		if long {
			t.Log(after.row("alone", period{}, ""))
		}
		before = after
	}
	until := c.now().Truncate(time.Second)
	c.awaitEnded(until, 5*time.Minute)
	runs, lost := c.lost(until)
	t.Logf("%d runs, %d lost", runs, lost)
	require.Positive(t, runs)
	require.Zero(t, lost)
}

// victims are the ids of the jobs of the attacked namespace.
func (c *cluster) victims() (ids []uuid.UUID) {
	for _, j := range c.jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// awaitEnded waits until no run of the attacked namespace is left that is due before an instant.
func (c *cluster) awaitEnded(before time.Time, within time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	const query = `
SELECT clock_timestamp() > $2 AND NOT EXISTS (SELECT FROM run WHERE job_id = ANY ($1) AND due_at < $2)
       AND (SELECT count(*) FROM run_history WHERE job_id = ANY ($1) AND due_at >= $2::timestamptz - interval '1 second'
            AND due_at < $2) >= cardinality($1::uuid[])`
	require.NoError(c.t, until(ctx, func() (done bool) {
		require.NoError(c.t, c.pool.QueryRow(ctx, query, c.victims(), before).Scan(&done))
		return done
	}), "runs of the attacked namespace do not end")
}

// late is how long after their due time runs reached the sink, and ended by the clock of the database.
func (c *cluster) late(from, to time.Time) (started figures, ended map[time.Time]figures) {
	c.t.Helper()
	ended = map[time.Time]figures{}
	for _, x := range c.sink.since(from) {
		if !x.due.Before(from) && x.due.Before(to) {
			started = append(started, x.received.Sub(x.due))
		}
	}
	rows, err := c.pool.Query(c.t.Context(), `
SELECT due_at, ended_at - due_at FROM run_history
WHERE job_id = ANY ($1) AND due_at >= $2 AND due_at < $3 AND ended = 1`, c.victims(), from, to)
	require.NoError(c.t, err)
	defer rows.Close()
	for rows.Next() {
		var due time.Time
		var d time.Duration
		require.NoError(c.t, rows.Scan(&due, &d))
		ended[due] = append(ended[due], d)
	}
	require.NoError(c.t, rows.Err())
	return started, ended
}

// lost compares the runs that were due before an instant with those that succeeded.
func (c *cluster) lost(before time.Time) (runs, lost int) {
	c.t.Helper()
	const query = `
SELECT coalesce(sum(expected), 0), coalesce(sum(expected - succeeded), 0)
FROM (SELECT extract(epoch FROM $2::timestamptz - min(due_at))::integer AS expected,
             count(*) FILTER (WHERE ended = 1) AS succeeded
      FROM run_history WHERE job_id = ANY ($1) AND due_at < $2 GROUP BY job_id) j`
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), query, c.victims(), before).Scan(&runs, &lost))
	return runs, lost
}

// taken is how many slots of a node the attacker has, on the node where it has most. If it has all, it waits until it
// has not: a claim takes all free slots for a moment, and deferred runs return them.
func (a *attacker) taken(slots int) (taken int) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	const query = `
SELECT coalesce(max(n), 0) FROM (
    SELECT count(*) AS n FROM run
    WHERE state = 1 AND job_id IN (SELECT id FROM job WHERE namespace_id = $1) GROUP BY session_id) s`
	require.NoError(a.t, until(ctx, func() bool {
		require.NoError(a.t, a.c.pool.QueryRow(ctx, query, a.namespace).Scan(&taken))
		return taken < slots
	}), "the attacker has all slots of a node")
	return taken
}

// anyDefinition is a job of the attacker, every second until an instant.
func anyDefinition(name, kind, config string, end time.Time) job.Definition {
	d := job.Definition{Name: name, Target: job.Target{Kind: kind, Config: []byte(config)}}
	d.Schedule.Every, d.Schedule.EndAt = "1s", end
	d.Policy = job.Policy{
		Overlap: job.OverlapAllow, Timeout: job.Duration(time.Hour), Retry: job.Retry{MaxAttempts: 3},
		Missed: job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(time.Hour), Max: 10_000},
	}
	return d
}
