//go:build linux

package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestMain: this program is also the runner that nodes start.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == RunnerCommand {
		if Runner(context.Background(), os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func withCommands(c *Config) { c.Command.Enabled, c.Command.Programs = true, "/bin/bash" }

// TestCommandsAreOffUnlessTurnedOn, and a node that cannot run the programs of its
// configuration does not start.
func TestCommandsAreOffUnlessTurnedOn(t *testing.T) {
	t.Parallel()
	const body = `{"name":"c","schedule":"every 1h","target":{"kind":"command","config":{"program":"/bin/bash"}}}`
	s, c := serveAPI(t, nil)
	status, answer, _ := c.call("POST", "/api/v1/jobs", body)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	found := answer["problems"].([]any)[0].(map[string]any)
	require.Equal(t, "target.kind", found["field"])
	require.Equal(t, "commands are disabled on this server", found["problem"])
	require.Contains(t, found["fix"], "set command.enabled")
	require.NoError(t, s.end(t))

	for _, wrong := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Command.Enabled = true }, "nothing may be run; set command.programs"},
		{func(c *Config) { withCommands(c); c.Command.Bubblewrap = "/no/bwrap" }, "install the package bubblewrap"},
	} {
		conf := testConfig(serverURL(t))
		wrong.change(&conf)
		require.ErrorContains(t, <-serveNode(t, conf).ended, wrong.says)
	}
}

// visibleDir returns a directory that the user of commands can look into.
func visibleDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "belfry-command-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// TestOutputIsToldByAnyNode: what a command writes is seen through the node that
// runs it and through the other, while it runs and afterwards.
func TestOutputIsToldByAnyNode(t *testing.T) {
	t.Parallel()
	url, _ := pgtest.ServerURL(t)
	signals := visibleDir(t)
	with := func(c *Config) { withCommands(c); c.Command.Paths += ":" + signals }
	first, one := serveAPI(t, func(c *Config) { with(c); c.DatabaseURL = url })
	conf := testConfig(url)
	with(&conf)
	conf.Name = "two"
	second := serveNode(t, conf)
	address := second.log.await(t, "node started")["address"].(string)
	two := &client{t: t, base: "http://" + address, key: one.key, http: &http.Client{}}

	until := "until [ -e " + signals + "/shown ]; do sleep 0.1; done" // both nodes have shown that it began
	status, job, _ := one.call("POST", "/api/v1/jobs", fmt.Sprintf(`{
		"name":"c","schedule":"0 0 1 1 *","timeout":"1m","payload":{"n":1},
		"retry":{"max_attempts":2,"base":"10ms","backoff":"fixed"},
		"target":{"kind":"command","config":{"program":"/bin/bash","args":["-c",
			"echo begun; %s; echo \"ended $BELFRY_ATTEMPT $(cat)\"; [ $BELFRY_ATTEMPT = 2 ] || exit 75"]}}}`, until))
	require.Equal(t, http.StatusCreated, status, job)
	_, made, _ := one.call("POST", fmt.Sprintf("/api/v1/jobs/%s:trigger", job["id"]), "")
	path := "/api/v1/runs/" + made["id"].(string)

	var got map[string]any
	for _, c := range []*client{one, two} {
		require.Eventually(t, func() bool {
			status, got, _ = c.call("GET", path+"/output?attempt=1&wait=5", "")
			require.Equal(t, http.StatusOK, status, got)
			return got["text"] != ""
		}, time.Minute, 10*time.Millisecond)
		require.Equal(t, "begun\n", got["text"])
		require.Equal(t, true, got["live"])
		require.EqualValues(t, 6, got["total"])
	}
	require.NoError(t, os.WriteFile(filepath.Join(signals, "shown"), nil, 0o600))
	// What is new, as soon as it is there.
	_, got, _ = two.call("GET", path+"/output?attempt=1&after=6&wait=20", "")
	require.Equal(t, "ended 1 {\"n\":1}\n", got["text"])
	require.EqualValues(t, 6, got["from"])
	for _, c := range []*client{one, two} {
		require.Eventually(t, func() bool {
			_, got, _ = c.call("GET", path, "")
			return got["state"] == "succeeded"
		}, time.Minute, 50*time.Millisecond)
		for i, a := range got["attempts"].([]any) {
			a := a.(map[string]any)
			require.Equal(t, fmt.Sprintf("begun\nended %d {\"n\":1}\n", i+1), a["output"])
		}
		require.Len(t, got["attempts"], 2)
		require.Equal(t, `exited with code 75: begun | ended 1 {"n":1}`,
			got["attempts"].([]any)[0].(map[string]any)["message"])
	}
	_, got, _ = one.call("GET", path+"/output?wait=20", "")
	require.Equal(t, map[string]any{
		"attempt": 2., "state": "succeeded", "live": false,
		"text": "begun\nended 2 {\"n\":1}\n", "from": 0., "total": 22.,
	}, got)
	require.NoError(t, second.end(t))
	require.NoError(t, first.end(t))
}
