package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func TestSessionsOfAKey(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	require.Contains(t, a.Belfry("", "session", "list").Err, "not logged in")
	for _, browser := range []string{"Firefox", "Chrome"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+"/api/v1/session",
			strings.NewReader(`{"key":"`+a.Key+`"}`))
		require.NoError(t, err)
		r.Header.Set("User-Agent", browser)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusCreated, resp.StatusCode)
	}
	out := a.Good("session", "list")
	require.Regexp(t, `(?s)ID +BEGUN UTC.*login_\w{26} .*Chrome\s+login_\w{26} .*Firefox`, out)
	require.Contains(t, a.Good("session", "list", "-o", "json"), `"current": false`)
	client, err := belfry.New(a.URL, a.Key)
	require.NoError(t, err)
	all, err := client.Sessions.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)

	require.Equal(t, "ended 2\n", a.Good("session", "revoke"))
	ended, err := client.Sessions.Revoke(t.Context())
	require.NoError(t, err)
	require.Zero(t, ended)
	require.Contains(t, a.Good("audit", "list"), "session.revoke")
	for _, command := range []string{"list", "revoke"} {
		got := a.Belfry("", "session", command, "--subject", "4711")
		require.ErrorContains(t, got.Failure, "no identity provider is configured", command)
	}
}
