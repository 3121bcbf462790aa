package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// bothUp is how long the new primary and the revived old one are both up.
const bothUp = 2 * time.Second

// failOver makes the primary fail, promotes a standby, lets the old primary come back as if nothing had happened, and
// then makes it a standby. It returns when the new primary acknowledged its first write.
func (c *cluster) failOver(ctx context.Context, f fault) (accepted time.Time, err error) {
	old := c.group.primary
	if err := old.strike(f); err != nil {
		return accepted, err
	}
	anyTime(2 * time.Second) // until a monitor notices
	if accepted, err = c.group.promote(ctx); err != nil {
		return accepted, fmt.Errorf("%s %s: %w", old.name, f, err)
	}
	c.awaitRecovery(accepted)
	if err := old.revive(ctx, f); err != nil {
		return accepted, err
	}
	if c.ha {
		if err := old.refuses(ctx, bothUp); err != nil {
			return accepted, err
		}
	}
	return accepted, c.group.rejoin(ctx, old)
}

// awaitRecovery waits until each partition had a run after an instant, or for as long as that may take: until then the
// old primary stays as it is. The checker judges later how long it took.
func (c *cluster) awaitRecovery(at time.Time) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	defer cancel()
	_ = until(ctx, func() bool {
		<-time.After(200 * time.Millisecond) // it reads all receipts
		seen := map[int16]bool{}
		for _, x := range c.sink.since(at) {
			if k, err := job.ParseRunID(x.run); err == nil && x.due.After(at) {
				seen[k.Partition] = true
			}
		}
		return len(seen) == job.Partitions
	})
}

// created is a bulk of one-off jobs that a client asked for, each named after the bulk and its number in it.
type created struct {
	key  string
	due  time.Time
	size int
	ids  []uuid.UUID // if it was acknowledged
	at   time.Time   // when it was
}

// createBulks creates one-off jobs until ctx ends, size of them in one request. A request without an answer is sent
// again, with the same Idempotency-Key, until it is acknowledged.
func (u *caller) createBulks(ctx context.Context, who, size int, pause time.Duration) (all []*created) {
	for i := 0; ctx.Err() == nil; i++ {
		b := &created{
			key: fmt.Sprintf("bulk-%d-%d", who, i), size: size,
			due: clock.Now().Add(3 * time.Second).UTC().Truncate(time.Second),
		}
		all = append(all, b)
		for b.ids == nil {
			u.sendBulk(context.WithoutCancel(ctx), b)
			<-time.After(pause)
			if ctx.Err() != nil {
				break
			}
		}
	}
	return all
}

func (u *caller) sendBulk(ctx context.Context, b *created) {
	var lines strings.Builder
	for i := range b.size {
		fmt.Fprintf(&lines, `{"name":"%s-%d","schedule":{"at":%q},"target":{"kind":"http","config":{"url":%q}},`+
			`"retry":{"max_attempts":100,"backoff":"none"}}`+"\n", b.key, i, b.due.Format(time.RFC3339), u.c.sink.url)
	}
	got, text := u.askWith(ctx, "POST", u.anyNode()+"/jobs:bulk", lines.String(), map[string]string{
		"Content-Type": "application/x-ndjson", "Idempotency-Key": b.key,
	})
	var answer struct {
		Items []struct {
			ID      string
			Problem json.RawMessage
		}
	}
	if got != acknowledged || json.Unmarshal(text, &answer) != nil {
		return
	}
	ids := make([]uuid.UUID, 0, b.size)
	for _, item := range answer.Items {
		id, err := job.ParseJobID(item.ID)
		if err != nil {
			return
		}
		ids = append(ids, id)
	}
	b.ids, b.at = ids, clock.Now()
}

// failoverReport is the last line of `make failover`.
type failoverReport struct {
	report
	failovers, acknowledged int
	recovery                figures
}

func (r failoverReport) String() string {
	ms := func(p int) time.Duration { return r.recovery.percentile(p).Round(time.Millisecond) }
	return fmt.Sprintf("failovers=%d acknowledged=%d lost=%d early=%d phantom=%d stuck=%d duplicates=%d recovery_p50=%s "+
		"recovery_max=%s", r.failovers, r.acknowledged, r.lost, r.early, r.phantom, r.stuck, r.duplicates, ms(50), ms(100))
}

// clean requires that nothing is wrong, except duplicates by different attempts.
func (r failoverReport) clean(t *testing.T) {
	t.Helper()
	require.Positive(t, r.acknowledged)
	require.Equal(t, report{occurrences: r.occurrences, duplicates: r.duplicates}, r.report)
}

// checkFailovers compares what was acknowledged and what was expected with the ledger and the sink.
func (c *cluster) checkFailovers(bulks []*created, accepted []time.Time) failoverReport {
	c.t.Helper()
	ledger, receipts, must := c.ledger(), c.sink.all(), c.must()
	r := failoverReport{failovers: len(accepted)}
	r.recovery = c.recovery(ledger, receipts, accepted)
	unknown := map[uuid.UUID]bool{}
	for _, b := range bulks {
		r.acknowledged += len(b.ids)
		for _, id := range b.ids {
			must = append(must, job.FormatRunID(job.Key{Job: id, DueAt: b.due}))
		}
		if b.ids == nil {
			for _, id := range c.jobsOf(b.key) {
				unknown[id] = true
			}
		}
	}
	left := func(run string) bool {
		k, err := job.ParseRunID(run)
		return err == nil && (unknown[k.Job] || !k.DueAt.Before(c.end))
	}
	maps.DeleteFunc(ledger, func(run string, _ []entry) bool { return left(run) })
	receipts = slices.DeleteFunc(receipts, func(x receipt) bool { return left(x.run) })
	r.report = judge(must, ledger, receipts)
	r.stuck = c.stuck()
	for _, entries := range ledger {
		r.acknowledged += len(entries)
	}
	return r
}

// finishBefore waits until all runs that are due before an instant have ended, and stops the nodes. The checker ignores
// later ones.
func (c *cluster) finishBefore(end time.Time, within time.Duration) {
	c.t.Helper()
	c.end = end.Truncate(time.Second)
	require.NoError(c.t, c.ended(c.end, within))
	c.endAll()
}

func flatten(worked [][]*created) (all []*created) {
	for _, of := range worked {
		all = append(all, of...)
	}
	return all
}

// jobsOf lists the jobs of a bulk whose answer is unknown.
func (c *cluster) jobsOf(bulk string) []uuid.UUID {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), `SELECT id FROM job WHERE name LIKE $1 || '-%'`, bulk)
	require.NoError(c.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(c.t, err)
	return ids
}

// recovery is how long after each instant every partition had a run again that was claimed after it.
func (c *cluster) recovery(ledger map[string][]entry, receipts []receipt, after []time.Time) (out figures) {
	c.t.Helper()
	for i, at := range after {
		first := map[int16]time.Time{}
		for _, x := range receipts {
			e := ledger[x.run]
			if len(e) != 1 || !e[0].claimed.After(at) || x.received.Before(e[0].claimed) {
				continue
			}
			k, err := job.ParseRunID(x.run)
			require.NoError(c.t, err)
			if before, ok := first[k.Partition]; !ok || x.received.Before(before) {
				first[k.Partition] = x.received
			}
		}
		assert.Len(c.t, first, job.Partitions, "partitions with a run after failover %d", i)
		var last time.Duration
		for _, t := range first {
			last = max(last, t.Sub(at))
		}
		out = append(out, last)
	}
	return out
}

// TestFailover (F7): the primary is killed, stopped or cut off while runs are due and clients create jobs. The most
// advanced standby is promoted. The old primary comes back and is fenced. No acknowledged write is lost, and each
// partition has runs again soon after the new primary accepted writes. FAILOVERS=50 is the long form.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{nodes: 3, ha: true, api: true})
	c.create(number("JOBS", job.Partitions), 24*time.Hour, inPartition, spread)
	c.drillFailovers(number("FAILOVERS", 1), []fault{killed, stopped, partitioned}, c.failOver)
}

// drillFailovers makes the database fail over while clients create jobs, by each kind of fault in turn, and judges what
// came of it. failOver returns when the new primary accepted its first write.
func (c *cluster) drillFailovers(
	failovers int, faults []fault, failOver func(context.Context, fault) (time.Time, error),
) {
	t, bulk := c.t, number("BULK", 20)
	t.Helper()
	u := c.caller(5 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var users sync.WaitGroup
	worked := make([][]*created, 2)
	for i := range worked {
		users.Go(func() { worked[i] = u.createBulks(ctx, i, bulk, 100*time.Millisecond) })
	}
	c.balanced()
	var accepted []time.Time
	for i := range failovers {
		begun := clock.Now()
		anyTime(2 * time.Second)
		f := faults[i%len(faults)]
		at, err := failOver(t.Context(), f)
		require.NoError(t, err)
		accepted = append(accepted, at)
		t.Logf("failover %d: %s, whole cycle %s", i+1, f, clock.Now().Sub(begun).Round(time.Millisecond))
	}
	stop()
	users.Wait()
	c.finishBefore(c.now().Add(5*time.Second), 5*time.Minute)

	r := c.checkFailovers(flatten(worked), accepted)
	t.Logf("recovery after each: %v", []time.Duration(r.recovery))
	t.Logf("lateness %s", c.lateness())
	t.Log(r)
	r.clean(t)
	require.LessOrEqual(t, r.recovery.percentile(100), allowed(10*time.Second))
}

// TestOldPrimaryIsRefused: once a process has found the new primary, it uses no connection to the old one, although
// that accepts writes when it is back.
func TestOldPrimaryIsRefused(t *testing.T) {
	t.Parallel()
	group := newReplicas(t, false)
	p, err := store.Open(t.Context(), group.urlOf("belfry", false), store.Options{Connections: 2})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Ping(t.Context()))
	old := group.primary
	require.NoError(t, old.strike(stopped))
	_, err = group.promote(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, until(ctx, func() bool {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return p.Ping(limited) == nil
	}), "the new primary is not found")

	require.NoError(t, old.revive(t.Context(), stopped))
	require.NoError(t, old.write(t.Context(), time.Minute), "it accepts writes")
	require.NoError(t, group.primary.strike(killed))
	for range 3 {
		err = p.Ping(ctx)
		require.Error(t, err)
	}
	require.ErrorContains(t, err, "timeline")
}
