package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// TestAKeyExpiresOnTime: a key stops working when it expires, although the cache would keep it longer.
func TestAKeyExpiresOnTime(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{})
	accepted := 0
	for life := 700 * time.Millisecond; accepted == 0; life *= 2 { // the machine may be suspended for that long
		require.Less(t, life, time.Minute)
		accepted = b.expires(life)
	}
}

// expires creates a key, checks that it stops working when it expires, and returns how often it was accepted before.
func (b *bundle) expires(life time.Duration) (good int) {
	t := b.t
	t.Helper()
	k, secret, err := b.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: defaultNamespace, Name: "short", Role: access.Viewer, ExpiresIn: life, Actor: "test",
	})
	require.NoError(t, err)
	var last int
	require.Eventually(t, func() bool {
		var expired bool
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT clock_timestamp() >= $1`, k.ExpiresAt).Scan(&expired))
		if last = b.callAs(secret, "GET", "/self", "").status; last == http.StatusOK {
			good++
			require.False(t, expired, "the node trusts the key no longer than it lives")
		}
		return last != http.StatusOK
	}, time.Minute, 5*time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, last)
	var expired bool
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT now() >= $1`, k.ExpiresAt).Scan(&expired))
	require.True(t, expired, "not before its time")
	return good
}

// TestAGoodKeyIsServedDuringAFlood: behind a proxy all clients share one address. A flood of bad keys from
// it does not block good keys: neither keys that this node has never seen, nor keys created meanwhile.
func TestAGoodKeyIsServedDuringAFlood(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{})
	fresh := make([]string, 20)
	for i := range fresh {
		fresh[i] = b.newKey(defaultNamespace, access.Viewer)
	}
	stop := make(chan struct{})
	refused := make(chan int, 8)
	var flood sync.WaitGroup
	for worker := range 8 {
		flood.Go(func() {
			slowed := 0
			for i := 0; ; i++ {
				select {
				case <-stop:
					refused <- slowed
					return
				default:
				}
				var guess [32]byte
				copy(guess[:], fmt.Sprintf("%d-%d", worker, i))
				if b.callAs(access.FormatKey(guess), "GET", "/self", "").status == http.StatusTooManyRequests {
					slowed++
				}
			}
		})
	}
	status := func(key string) int { return b.callAs(key, "GET", "/self", "").status }
	require.Eventually(t, func() bool {
		return status(access.FormatKey([32]byte{99})) == http.StatusTooManyRequests
	}, time.Minute, time.Millisecond, "the flood is held back")
	for _, key := range fresh {
		require.Equal(t, http.StatusOK, status(key), "a key that this node has never seen")
	}
	made := b.newKey(defaultNamespace, access.Viewer)
	begun := clock.Elapsed()
	require.Eventually(t, func() bool { return status(made) == http.StatusOK }, time.Minute, 20*time.Millisecond)
	t.Logf("a key made during the flood works after %s", clock.Elapsed()-begun)
	close(stop)
	flood.Wait()
	slowed := 0
	for range 8 {
		slowed += <-refused
	}
	require.Positive(t, slowed)
}

// TestAnAuditActorIsOneKey: the audit log distinguishes two keys with the same name.
func TestAnAuditActorIsOneKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, other := b.newKey(defaultNamespace, access.Admin), b.newKey(defaultNamespace, access.Admin)
	for i, key := range []string{one, other} {
		a := b.callAs(key, "POST", "/jobs", strings.Replace(hourly, "report", fmt.Sprintf("job-%d", i), 1))
		require.Equal(t, 201, a.status, "%s", a.body)
		page, err := b.store.Audit(t.Context(), access.AuditParams{Namespace: defaultNamespace, Limit: 1})
		require.NoError(t, err)
		self := b.callAs(key, "GET", "/self", "").json(t)
		require.Equal(t, fmt.Sprintf("key:%s [%s]", self["name"], self["key"]), page.Entries[0].Actor)
	}
}

// TestAuditIsVerifiedInParts: one request checks a bounded number of entries, and the next request
// continues from the hash where it ended.
func TestAuditIsVerifiedInParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 7 {
		b.newKey(defaultNamespace, access.Viewer)
	}
	ctx := t.Context()
	first, more, err := b.store.VerifyAudit(ctx, defaultNamespace, access.AuditCheck{}, 5)
	require.NoError(t, err)
	require.True(t, more)
	require.EqualValues(t, 5, first.Seq)
	second, more, err := b.store.VerifyAudit(ctx, defaultNamespace, first, 5)
	require.NoError(t, err)
	require.False(t, more)
	require.EqualValues(t, 8, second.Seq)

	_, err = b.pool.Exec(ctx, `
INSERT INTO audit_log
SELECT namespace_id, seq + n * 8, at, actor, action, object, detail, hash FROM audit_log, generate_series(1, 1250) n`)
	require.NoError(t, err)
	a := b.call("GET", "/audit:verify", "").json(t)
	require.Equal(t, false, a["ok"], "what was copied is not what was written: %v", a)
	b.rechain()
	a = b.call("GET", "/audit:verify", "").json(t)
	require.Equal(t, true, a["ok"], "%v", a)
	require.EqualValues(t, 10_000, a["entries"])
	a = b.call("GET", "/audit:verify?page_token="+a["next_page_token"].(string), "").json(t)
	require.Equal(t, true, a["ok"], "%v", a)
	require.EqualValues(t, 10_008, a["entries"])
	require.NotContains(t, a, "next_page_token")
	require.Equal(t, 400, b.call("GET", "/audit:verify?page_token=x", "").status)
}

// rechain computes every hash of the log again, as the store does when it writes an entry.
func (b *bundle) rechain() {
	b.t.Helper()
	page, err := b.store.Audit(b.t.Context(), access.AuditParams{Namespace: defaultNamespace, Limit: 100_000})
	require.NoError(b.t, err)
	entries := page.Entries
	var before [32]byte
	hashes := make([][]byte, len(entries))
	seqs := make([]int64, len(entries))
	for i := range entries {
		e := entries[len(entries)-1-i]
		e.Hash = e.Chain(defaultNamespace, before)
		before, seqs[i] = e.Hash, e.Seq
		hashes[i] = append([]byte{}, e.Hash[:]...)
	}
	_, err = b.pool.Exec(b.t.Context(), `
UPDATE audit_log a SET hash = n.hash
FROM (SELECT unnest($1::bigint[]) AS seq, unnest($2::bytea[]) AS hash) n
WHERE a.seq = n.seq`, seqs, hashes)
	require.NoError(b.t, err)
}

// TestIdempotencyKeysAreNeverIgnored: each operation that changes something either takes an
// Idempotency-Key or rejects it.
func TestIdempotencyKeysAreNeverIgnored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("GET", "/openapi.json", "")
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Role       string `json:"x-role"`
		}
	}
	require.NoError(t, json.Unmarshal(a.body, &api))
	taken, refused := 0, 0
	for path, item := range api.Paths {
		for method, o := range item {
			takes := false
			for _, p := range o.Parameters {
				takes = takes || p.Name == "Idempotency-Key"
			}
			if method == "get" {
				require.False(t, takes, path)
				continue
			}
			if o.Role == "run" { // the token identifies a report, so a repetition is harmless
				continue
			}
			plain := strings.NewReplacer("/api/v1", "", "{", "", "}", "").Replace(path)
			a := b.call(strings.ToUpper(method), plain, "", "Idempotency-Key", "k")
			if takes {
				taken++
				require.NotContains(t, string(a.body), "this operation does not take one", path)
				continue
			}
			refused++
			require.Equal(t, 422, a.status, "%s %s: %s", method, path, a.body)
			require.Contains(t, string(a.body),
				`"field":"Idempotency-Key","problem":"this operation does not take one"`)
		}
	}
	require.GreaterOrEqual(t, taken, 8)
	require.GreaterOrEqual(t, refused, 8)
	create := b.call("POST", "/keys", `{"name":"k","role":"viewer"}`, "Idempotency-Key", "k")
	require.Equal(t, 422, create.status, "its answer has a secret, which is not stored")
}

// TestARetryIsCarriedOutOnce: a retry with an Idempotency-Key is not repeated, even if the run has ended
// again meanwhile.
func TestARetryIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	n.operate()
	id := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	runs := n.die(id, 3)
	const key = "Idempotency-Key"
	for verb, run := range map[string]string{
		"/runs/" + runs[0] + ":retry": runs[0], "/dead-letters/" + runs[1] + ":redrive": runs[1],
	} {
		a := n.call("POST", verb, "", key, "once "+run)
		require.Equal(t, 202, a.status, "%s", a.body)
		n.await("/runs/"+run, "attempt", 2.)
		n.await("/runs/"+run, "dead_letter", true)
		a = n.call("POST", verb, "", key, "once "+run)
		require.Equal(t, 202, a.status, "%s", a.body)
		require.EqualValues(t, 2, a.json(t)["attempt"], "nothing is done again: %s", a.body)
		require.Equal(t, "failed", a.json(t)["state"])
		require.Equal(t, 422, n.call("POST", "/runs/"+runs[2]+":retry", "", key, "once "+run).status, "another request")
	}
	begun := n.call("POST", "/dead-letters:redrive", `{"job":"bad"}`, key, "all")
	require.Equal(t, 202, begun.status, "%s", begun.body)
	again := n.call("POST", "/dead-letters:redrive", `{"job":"bad"}`, key, "all")
	require.Equal(t, string(begun.body), string(again.body))
	items, _ := n.all("/operations?page_size=5")
	require.Len(t, items, 1)
}
