package postgres_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// A large payload is read after the claim, by the version that was claimed.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	large := func(letter string) json.RawMessage {
		return json.RawMessage(`"` + strings.Repeat(letter, 100_000) + `"`)
	}
	config := json.RawMessage(`{"note":"` + strings.Repeat("c", 3000) + `"}`)
	session := b.session()
	b.take(session, b.ownership())
	var keys []job.Key
	add := func(name string, d job.Definition, own json.RawMessage) {
		d.Name, d.Schedule = name, everyHour
		d.Overlap = job.OverlapAllow
		j := b.create(d)
		key, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "test"}, own)
		require.NoError(t, err)
		keys = append(keys, key)
	}
	noop := job.Target{Kind: "noop"}
	add("of the job", job.Definition{Target: noop, Payload: large("j")}, nil)
	add("of the run", job.Definition{Target: noop, Payload: large("j")}, large("r"))
	add("small", job.Definition{Target: noop, Payload: json.RawMessage(`"s"`)}, nil)
	add("large target", job.Definition{Target: job.Target{Kind: "noop", Config: config}}, nil)
	for range 40 { // more than one statement reads
		add(uuid.NewString(), job.Definition{Target: noop, Payload: large("m")}, nil)
	}
	check := func(attempts []job.Attempt, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Len(t, attempts, len(keys))
		got := map[uuid.UUID]job.Attempt{}
		for _, a := range attempts {
			got[a.Key.Job] = a
		}
		require.Equal(t, string(large("j")), got[keys[0].Job].Payload)
		require.Equal(t, string(large("r")), got[keys[1].Job].Payload)
		require.Equal(t, `"s"`, got[keys[2].Job].Payload)
		require.Empty(t, got[keys[3].Job].Payload)
		require.JSONEq(t, string(config), got[keys[3].Job].Config)
		for _, k := range keys[4:] {
			require.Equal(t, string(large("m")), got[k.Job].Payload)
		}
	}
	check(b.store.Claim(t.Context(), session, keys, time.Second))

	// After an edit the attempts still have what was claimed.
	for _, k := range []job.Key{keys[0], keys[1], keys[3]} {
		j := b.get(job.Job{Partition: k.Partition, ID: k.Job})
		d := j.Definition
		d.Payload, d.Target.Config = large("e"), json.RawMessage(`{"note":"`+strings.Repeat("e", 3000)+`"}`)
		b.update(j, d)
	}
	check(b.store.ResolveClaim(t.Context(), session, keys))
}

// stopsReading is a connection whose client stops reading once it has had all that it may read.
type stopsReading struct {
	net.Conn
	left   *atomic.Int64
	closed <-chan struct{}
}

func (c stopsReading) Read(p []byte) (int, error) {
	if c.left.Load() <= 0 {
		<-c.closed
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p)
	c.left.Add(int64(-n))
	return n, err
}

// frozen returns a store whose node is frozen while it reads the results of a claim: after a megabyte.
func (b *bulk) frozen() *pgtest.Store {
	b.t.Helper()
	config := b.pool.Config()
	var left atomic.Int64
	left.Store(1 << 20)
	closed := make(chan struct{})
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(1 << 12)
		}
		return stopsReading{conn, &left, closed}, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		close(closed)
		pool.Close()
	})
	return pgtest.NewStore(pool)
}

// While a frozen node reads payloads, its claim holds no lock that others wait for.
func TestClaimsHoldNoLocksWhilePayloadsAreSent(t *testing.T) {
	t.Parallel()
	const runs = 40
	tests := map[string]func(*bulk, *pgtest.Store){
		"Claim": func(b *bulk, s *pgtest.Store) {
			_, _ = s.Claim(b.t.Context(), b.session, b.keys(runs), time.Hour)
		},
		"PullClaim": func(b *bulk, s *pgtest.Store) {
			w := b.pulling()
			_, _ = s.PullClaim(b.t.Context(), job.PullClaimParams{
				Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: runs,
				Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: runs}},
			})
		},
	}
	for name, claim := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupBulk(t, nil)
			b.shared(runs)
			b.pending(1)
			b.exec(`UPDATE job SET payload = '"' || repeat('x', 200 << 10) || '"'`)
			store := b.frozen()
			go claim(b, store)
			j := jobs{t: t, pool: b.pool}
			require.Eventually(t, func() bool {
				return j.count(`pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'`) == 1
			}, clocktest.Allow(30*time.Second), 10*time.Millisecond, "the server waits for its client")
			require.Equal(t, runs, j.count(`run WHERE state = 1`), "the claim has committed")
			require.Zero(t, j.count(`pg_locks WHERE locktype = 'advisory'
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
		})
	}
}
