package oidc

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// TestNext: only pages of the UI follow a login. Everything else is the first page.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{
		"/ui/", "/ui/jobs", "/ui/jobs?name=a%26b&state=paused", "/ui/jobs/job_1/at/2026-03-29T02:30:00Z", "/ui/jobs/a%2Fb",
	} {
		require.Equal(t, kept, next(kept))
	}
	long := make([]byte, maxNext)
	for _, bad := range []string{
		"", "/", "/uix", "/ui", "ui/", "//evil.example.com", "/\\evil.example.com", "https://evil.example.com/ui/", "http:/ui/",
		"//evil.example.com/ui/", "/ui/../../evil", "/ui/..//evil.example.com", "/ui//evil.example.com", "/ui/%2e%2e/evil",
		"/ui/\\..\\evil", "/ui/\r\nSet-Cookie: a=b", "javascript:alert(1)", "/api/v1/session", "/auth/oidc", " /ui/", "\t/ui/",
		"https:evil.example.com", "///evil.example.com", "/ui/" + string(long), "/ui/%zz", "//user@evil.example.com/ui/",
	} {
		require.Equal(t, home, next(bad), "%q", bad)
	}
}

// TestStateExpires: after 10 minutes, by the clock of the node.
func TestStateExpires(t *testing.T) {
	t.Parallel()
	with := func(keys ...string) *handlers {
		var all access.ReportKeys
		for _, k := range keys {
			all = append(all, []byte(k))
		}
		return &handlers{api: rest.New(rest.Options{ReportKeys: all})}
	}
	h := with("of the cluster")
	valid := func(sealer *handlers, s state) bool {
		sealed, err := sealer.api.Seal(purpose, s)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/auth/oidc/callback?state=x", nil)
		r.Header.Set("Cookie", "belfry-login="+sealed)
		_, err = h.state(r)
		return err == nil
	}
	require.True(t, valid(h, state{State: "x", Until: clock.Now().Add(time.Minute)}))
	require.False(t, valid(h, state{State: "x", Until: clock.Now().Add(-time.Second)}))
	require.False(t, valid(h, state{State: "y", Until: clock.Now().Add(time.Minute)}))
	require.False(t, valid(with("of another cluster"), state{State: "x", Until: clock.Now().Add(time.Minute)}))
	h = with("new", "of the cluster")
	require.True(t, valid(with("of the cluster"), state{State: "x", Until: clock.Now().Add(time.Minute)}), "a rotation")
}

// TestCallsAreBounded: no call to the provider lasts without end.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	p := newProvider(Config{})
	require.Equal(t, callTimeout, p.client.Timeout)
	require.Less(t, callTimeout, 15*time.Second)
}
