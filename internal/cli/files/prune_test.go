package files_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// TestPrune checks that --prune deletes only jobs of its set, asks first, and never deletes all of them.
func TestPrune(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	const one = "{name: one, schedule: every 1h, target: {kind: noop}}\n"
	const two = "---\n{name: two, schedule: every 1h, target: {kind: noop}, labels: {team: web}}\n"
	a.Good("job", "create", "other", "--every", "1h", "--target", "noop")
	require.NoError(t, a.Belfry(one+two, "apply", "-f", "-", "--set", "billing").Failure)
	require.Contains(t, a.Good("job", "get", "two"), "belfry.set=billing team=web")

	require.ErrorContains(t, a.Belfry(one, "apply", "-f", "-", "--prune").Failure, "--set")
	require.ErrorContains(t, a.Belfry("", "apply", "-f", "-", "--set", "billing", "--prune", "--yes").Failure, "no jobs")
	s := a.Belfry(one, "apply", "-f", "-", "--set", "billing", "--prune")
	require.ErrorContains(t, s.Failure, "--yes")
	require.Contains(t, s.Err, "delete two")
	left := strings.Fields(a.Good("job", "list", "-o", "name")) // jobs of one file are created in any order
	require.ElementsMatch(t, []string{"other", "one", "two"}, left, "nothing was deleted")

	require.NoError(t, a.Belfry(one+two, "diff", "-f", "-", "--set", "billing", "--prune", "--exit-code").Failure)
	require.Contains(t, a.Belfry(one, "diff", "-f", "-", "--set", "billing", "--prune").Out, "delete    two")
	s = a.Belfry(one, "apply", "-f", "-")
	require.ErrorContains(t, s.Failure, "refused")
	require.Contains(t, s.Out+s.Err, "belongs to another set of files")
	require.ErrorContains(t, a.Belfry(one+two, "diff", "-f", "-").Failure, "two: the job belongs to another set of files")
	require.ErrorContains(t, a.Belfry(one+two, "apply", "-f", "-", "--set", "sales").Failure, "refused", "one team takes no other's")
	require.Contains(t, a.Good("job", "get", "one"), "belfry.set=billing", "the mark stays")
	require.Contains(t, a.Good("job", "get", "two"), "belfry.set=billing", "the mark stays")

	s = a.Belfry(one, "apply", "-f", "-", "--set", "billing", "--prune", "--yes")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "deleted   two")
	require.Equal(t, "other\none\n", a.Good("job", "list", "-o", "name"))
}

// A job that was changed after --prune listed it is not deleted.
func TestPruneKeepsChangedJobs(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	const one = "{name: one, schedule: every 1h, target: {kind: noop}}\n"
	const two = "---\n{name: two, schedule: every 1h, target: {kind: noop}}\n"
	require.NoError(t, a.Belfry(one+two, "apply", "-f", "-", "--set", "billing").Failure)
	to, err := url.Parse(a.URL)
	require.NoError(t, err)
	change := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, a.URL+"/api/v1/jobs/two",
			strings.NewReader(`{"priority":1}`))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+a.Key)
		r.Header.Set("Content-Type", "application/merge-patch+json")
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			if err := change(); err != nil {
				t.Error(err)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	meanwhile := *a
	meanwhile.URL = proxy.URL
	s := meanwhile.Belfry(one, "apply", "-f", "-", "--set", "billing", "--prune", "--yes")
	require.ErrorContains(t, s.Failure, "two (0 of 1 are deleted)")
	require.Contains(t, a.Good("job", "list", "-o", "name"), "two\n")
}

// TestPruneReadsSubdirectories: jobs whose files moved into a subdirectory are not deleted.
func TestPruneReadsSubdirectories(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	dir := t.TempDir()
	write := func(file, name string) {
		file = filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		text := "{name: " + name + ", schedule: every 1h, target: {kind: noop}}\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("one.yaml", "one")
	write("two.yml", "two")
	write(".hidden/three.yaml", "three") // as in .git, and in volumes of Kubernetes
	apply := []string{"apply", "-f", dir, "--set", "billing", "--prune", "--yes"}
	a.Good(apply...)
	require.NoError(t, os.Remove(filepath.Join(dir, "two.yml")))
	write("team/web/two.yml", "two")
	a.Good(apply...)
	require.ElementsMatch(t, []string{"one", "two"}, strings.Fields(a.Good("job", "list", "-o", "name")))
}
