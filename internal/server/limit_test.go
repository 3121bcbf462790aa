package server_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// limited starts an API with other limits, behind the HTTP server of a node.
func limited(t *testing.T, l rest.Limits) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	s := server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Audit: b.store, Version: "test", Limits: l,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	web := httptest.NewUnstartedServer(nil)
	web.Config = rest.HTTP(s.Handler())
	web.Start()
	t.Cleanup(web.Close)
	b.url, b.key = web.URL+"/api/v1", b.newKey(defaultNamespace, access.Admin)
	return b
}

func TestAKeyIsLimited(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{KeyRate: 1, KeyBurst: 5})
	other := b.newKey(defaultNamespace, access.Viewer)
	statuses := map[int]int{}
	begun := clock.Elapsed() // a slow machine may send few enough for a while
	for statuses[http.StatusTooManyRequests] == 0 && clock.Elapsed()-begun < time.Minute {
		a := b.call("GET", "/self", "")
		statuses[a.status]++
		if a.status == http.StatusTooManyRequests {
			require.Equal(t, "1", a.header.Get("Retry-After"))
			require.Equal(t, "rate_limited", a.json(t)["code"])
		}
	}
	require.GreaterOrEqual(t, statuses[http.StatusOK], 5)
	require.Positive(t, statuses[http.StatusTooManyRequests])
	require.Equal(t, http.StatusOK, b.callAs(other, "GET", "/self", "").status, "another key is not its fault")
}

// block blocks statements that write to a table, so that requests stay in progress.
func (b *bundle) block(table string) (release func()) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	_, err = tx.Exec(b.t.Context(), `LOCK TABLE `+table+` IN SHARE MODE`)
	require.NoError(b.t, err)
	return sync.OnceFunc(func() { require.NoError(b.t, tx.Rollback(context.Background())) })
}

// waiting waits until n statements wait for a lock.
func (b *bundle) waiting(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		var got int
		require.NoError(b.t, b.pool.QueryRow(context.Background(),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&got))
		return got == n
	}, time.Minute, 10*time.Millisecond)
}

// TestMoreThanTheNodeCanDo: the node rejects requests beyond its limit, neither a key nor a namespace can use all slots,
// and requests are accepted again when others end.
func TestMoreThanTheNodeCanDo(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{Requests: 4})
	other := b.otherNamespace()
	keys := []string{b.key, b.newKey(defaultNamespace, access.Admin), b.newKey(other, access.Admin)}
	release := b.block("api_key")
	defer release()
	var calls sync.WaitGroup
	created := make(chan int, 4)
	hold := func(key string) {
		calls.Go(func() { created <- b.callAs(key, "POST", "/keys", `{"name":"k","role":"viewer"}`).status })
	}
	hold(keys[0])
	hold(keys[0])
	b.waiting(2)
	a := b.callAs(keys[0], "GET", "/self", "")
	require.Equal(t, http.StatusTooManyRequests, a.status, "half of all is what a key may have")
	hold(keys[1])
	b.waiting(3)
	a = b.callAs(keys[1], "GET", "/self", "")
	require.Equal(t, http.StatusTooManyRequests, a.status, "the last slot is not for a namespace that has three")
	require.Contains(t, string(a.body), "this namespace")
	hold(keys[2])
	b.waiting(4)
	a = b.callAs(keys[2], "GET", "/self", "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, "unavailable", a.json(t)["code"])
	release()
	calls.Wait()
	for range 4 {
		require.Equal(t, http.StatusCreated, <-created)
	}
	require.Equal(t, http.StatusOK, b.callAs(keys[2], "GET", "/self", "").status)
}

// TestUnknownKeysAreLimited: after some unknown keys the database is no longer asked about keys from that
// address, and good keys still work.
func TestUnknownKeysAreLimited(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{})
	require.Equal(t, http.StatusOK, b.call("GET", "/self", "").status)
	statuses := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	begun := clock.Elapsed()
	for worker := range 8 { // one after the other may be slower than the limit
		all.Go(func() {
			status := http.StatusUnauthorized
			for i := 0; status != http.StatusTooManyRequests && clock.Elapsed()-begun < time.Minute; i++ {
				guess := [32]byte{byte(i), byte(i >> 8), byte(worker), 1}
				status = b.callAs(access.FormatKey(guess), "GET", "/self", "").status
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, statuses[http.StatusUnauthorized], 50)
	require.Positive(t, statuses[http.StatusTooManyRequests])
	require.Equal(t, http.StatusOK, b.call("GET", "/self", "").status, "a key that was good before")
	t.Logf("%v", statuses)
}

// TestARevokedKeyIsOver: a revoked key stops working on this node at once.
func TestARevokedKeyIsOver(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{})
	a := b.call("POST", "/keys", `{"name":"k","role":"viewer"}`)
	secret, id := a.json(t)["secret"].(string), a.json(t)["id"].(string)
	require.Equal(t, http.StatusOK, b.callAs(secret, "GET", "/self", "").status)
	require.Equal(t, http.StatusOK, b.call("POST", "/keys/"+id+":revoke", "").status)
	require.Equal(t, http.StatusUnauthorized, b.callAs(secret, "GET", "/self", "").status)
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{})
	a := b.call("GET", "/jobs/none", "", "X-Request-Id", "mine-1")
	require.Equal(t, "mine-1", a.header.Get("X-Request-Id"))
	require.Equal(t, "mine-1", a.json(t)["request_id"])
	for _, bad := range []string{"", "a b", strings.Repeat("x", 65), `"><script>`} {
		a = b.call("POST", "/jobs", `{"name":1}`, "X-Request-Id", bad)
		require.Regexp(t, `^[a-z0-9]{26}$`, a.header.Get("X-Request-Id"))
		require.Equal(t, a.header.Get("X-Request-Id"), a.json(t)["request_id"])
	}
}

// TestSizesAreBounded: headers, paths and bodies have a maximum size.
func TestSizesAreBounded(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{})
	long := strings.Repeat("x", 128<<10)
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, b.call("GET", "/self", "", "X-Long", long).status)
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, b.call("GET", "/jobs/"+long, "").status)
	large := `{"name":"` + strings.Repeat("x", 2<<20) + `"}`
	require.Equal(t, http.StatusRequestEntityTooLarge, b.call("POST", "/jobs", large).status)
}

// TestSlowloris: the server closes connections that send their headers byte by byte, and answers other
// requests meanwhile. SLOW is the number of connections.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	const most = 12 * time.Second
	slow, err := strconv.Atoi(cmp.Or(os.Getenv("SLOW"), "300"))
	require.NoError(t, err)
	b := limited(t, rest.Limits{Requests: 20})
	address := strings.TrimSuffix(strings.TrimPrefix(b.url, "http://"), "/api/v1")
	cut := make(chan time.Duration, slow)
	for range slow {
		go func() {
			begun := clock.Elapsed()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				cut <- time.Hour
				return
			}
			defer func() { _ = conn.Close() }()
			gone := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				close(gone)
			}()
			_, _ = fmt.Fprintf(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX: ")
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for clock.Elapsed()-begun < 10*most {
				select {
				case <-gone:
					cut <- clock.Elapsed() - begun
					return
				case <-tick.C:
					_, _ = conn.Write([]byte("x"))
				}
			}
			cut <- time.Hour
		}()
	}
	var answers []time.Duration
	var cuts []time.Duration
	pace := time.NewTicker(10 * time.Millisecond) // stays below the limit of the key
	defer pace.Stop()
	for len(cuts) < slow {
		select {
		case d := <-cut:
			cuts = append(cuts, d)
		case <-pace.C:
			begun := clock.Elapsed()
			require.Equal(t, http.StatusOK, b.call("GET", "/self", "").status)
			answers = append(answers, clock.Elapsed()-begun)
		}
	}
	slices.Sort(answers)
	require.Less(t, slices.Max(cuts), clocktest.Allow(most))
	p99 := answers[len(answers)*99/100]
	t.Logf("%d slow connections, the last cut off after %s; meanwhile %d answers, p99 %s",
		slow, slices.Max(cuts), len(answers), p99)
	require.Less(t, p99, clocktest.Allow(2*time.Second))
}
