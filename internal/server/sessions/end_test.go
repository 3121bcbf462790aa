package sessions_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestSessionsExpire: a session ends 12 hours after the login, and an hour after its last request, by the time of the
// database.
func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	browser := b.logIn(b.node(), b.text)
	var life string
	b.read(&life, `SELECT (expires_at - created_at)::text FROM login_session`)
	require.Equal(t, "12:00:00", life)
	for set, want := range map[string]int{
		`used_at = now() - interval '59 min'`:                                  http.StatusOK,
		`used_at = now() - interval '1 h'`:                                     http.StatusUnauthorized,
		`used_at = now(), expires_at = now() + interval '1 min'`:               http.StatusOK,
		`used_at = now(), expires_at = now()`:                                  http.StatusUnauthorized,
		`used_at = now() - interval '1 h', expires_at = now() + interval '1h'`: http.StatusUnauthorized,
	} {
		b.exec(`UPDATE login_session SET expires_at = now() + interval '12 h'`)
		b.exec(`UPDATE login_session SET ` + set)
		require.Equal(t, want, send(b.node(), request("GET", "/session", "", browser...)).status, set)
		items := send(b.node(), request("GET", "/sessions", "", "Authorization", "Bearer "+b.text)).json(t)["items"]
		require.Equal(t, want == http.StatusOK, len(items.([]any)) == 1, "the list has live sessions only: %s", set)
	}
	// A node does not trust a cached session longer than it lasts.
	node := b.node()
	var ends time.Time
	b.read(&ends, `UPDATE login_session SET used_at = now(), expires_at = now() + interval '700 ms' RETURNING expires_at`)
	require.Eventually(t, func() bool {
		var ended bool
		b.read(&ended, `SELECT clock_timestamp() >= $1`, ends)
		got := send(node, request("GET", "/self", "", browser...)).status
		require.False(t, ended && got == http.StatusOK)
		return got == http.StatusUnauthorized
	}, time.Minute, 5*time.Millisecond)

	dropped, err := b.store.DropLogins(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, dropped)
}

// TestReadingDoesNotWrite: a request extends its session at most once a minute.
func TestReadingDoesNotWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	browser := b.logIn(b.node(), b.text)
	for ago, extended := range map[string]bool{"0 s": false, "20 s": false, "61 s": true, "59 min": true} {
		b.exec(`UPDATE login_session SET used_at = now() - $1::interval`, ago)
		var before, after string
		const row = `SELECT ctid::text FROM login_session`
		b.read(&before, row)
		for range 5 {
			require.Equal(t, http.StatusOK, send(b.node(), request("GET", "/self", "", browser...)).status)
		}
		b.read(&after, row)
		require.Equal(t, extended, before != after, "used %s ago", ago)
		if extended {
			var recent bool
			b.read(&recent, `SELECT used_at > now() - interval '30 s' FROM login_session`)
			require.True(t, recent)
		}
	}
}

// TestSessionsEndWithTheirKey: on the node that revokes a key at once, on others within 5 seconds, and at the expiry of
// the key.
func TestSessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, admin := b.newKey(access.Admin)
	one, other := b.node(), b.node()
	browser := b.logIn(one, b.text)
	self := func(node http.Handler) int { return send(node, request("GET", "/self", "", browser...)).status }
	require.Equal(t, http.StatusOK, self(one))
	require.Equal(t, http.StatusOK, self(other))
	revoke := request("POST", "/keys/"+access.FormatKeyID(b.key.ID)+":revoke", "", "Authorization", "Bearer "+admin)
	require.Equal(t, http.StatusOK, send(one, revoke).status)
	require.Equal(t, http.StatusUnauthorized, self(one))
	require.Eventually(t, func() bool {
		var late bool
		b.read(&late, `SELECT clock_timestamp() > revoked_at + interval '5 s' FROM api_key WHERE id = $1`, b.key.ID)
		got := self(other)
		require.False(t, late && got == http.StatusOK, "accepted 5 seconds after it was revoked")
		return got == http.StatusUnauthorized
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, self(b.node()))

	key, text := b.newKey(access.Viewer)
	browser = b.logIn(one, text)
	require.Equal(t, http.StatusOK, self(b.node()))
	b.exec(`UPDATE api_key SET expires_at = now() WHERE id = $1`, key.ID)
	require.Equal(t, http.StatusUnauthorized, self(b.node()))
}

func TestAKeyHas20Sessions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	_, another := b.newKey(access.Viewer)
	other := b.logIn(node, another)
	first, second := b.logIn(node, b.text), b.logIn(node, b.text)
	for range access.MaxLogins - 2 {
		b.logIn(node, b.text)
	}
	status := func(browser []string) int {
		return send(b.node(), request("GET", "/session", "", browser...)).status
	}
	require.Equal(t, http.StatusOK, status(first))
	b.logIn(node, b.text)
	require.Equal(t, http.StatusUnauthorized, status(first), "the oldest ends")
	require.Equal(t, http.StatusOK, status(second))
	require.Equal(t, http.StatusOK, status(other), "those of another key stay")
	// Sessions that have ended go before live ones.
	var ended string
	b.read(&ended, `
UPDATE login_session SET used_at = now() - interval '2 h' WHERE id = (
    SELECT id FROM login_session WHERE key_id = $1 ORDER BY created_at DESC LIMIT 1) RETURNING id::text`, b.key.ID)
	b.logIn(node, b.text)
	require.Equal(t, http.StatusOK, status(second))
	var left int
	b.read(&left, `SELECT count(*) FROM login_session WHERE id::text = $1`, ended)
	require.Zero(t, left)
	b.read(&left, `SELECT count(*) FROM login_session WHERE key_id = $1`, b.key.ID)
	require.Equal(t, access.MaxLogins, left)

	last := b.logIn(node, b.text)
	got := send(node, request("POST", "/sessions:revoke", "", last...))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.JSONEq(t, `{"revoked":20,"aborted_operations":0}`, got.body)
	require.Contains(t, got.header.Get("Set-Cookie"), "belfry=; Path=/; Max-Age=0")
	require.Equal(t, http.StatusUnauthorized, send(node, request("GET", "/self", "", last...)).status, "at once")
	require.Equal(t, http.StatusUnauthorized, status(second))
	require.Equal(t, http.StatusOK, status(other))
	got = send(node, request("POST", "/sessions:revoke", "", "Authorization", "Bearer "+b.text))
	require.JSONEq(t, `{"revoked":0,"aborted_operations":0}`, got.body)
	require.Empty(t, got.header.Get("Set-Cookie"))
}

// TestACodeLogsInOnce: from this machine, by a loopback address, once.
func TestACodeLogsInOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	body := `{"code":"` + b.code.Text() + `"}`
	far := request("POST", "/session", body)
	far.RemoteAddr = "203.0.113.5:50000"
	require.Equal(t, http.StatusUnauthorized, send(node, far).status, "from another machine")
	rebound := request("POST", "/session", body)
	rebound.Host = "evil.example.com"
	require.Equal(t, http.StatusUnauthorized, send(node, rebound).status, "by a name that leads to this machine")
	code := b.code
	b.code = nil
	require.Equal(t, http.StatusUnauthorized, send(b.node(), request("POST", "/session", body)).status, "no dev node")
	b.code = code

	got := send(node, request("POST", "/session", body))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, "admin", got.json(t)["role"])
	require.Contains(t, got.header.Get("Set-Cookie"), "belfry=bfs_")
	got = send(node, request("POST", "/session", body))
	require.Equal(t, http.StatusUnauthorized, got.status, "used twice")
	require.NotContains(t, got.body, b.code.Text())
}
