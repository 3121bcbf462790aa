package chart

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const rulesFile = root + "/deploy/prometheus/belfry.rules.yaml"

// TestRulesAreThoseOfPrometheus: the chart has no copy of its own.
func TestRulesAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	var file object
	readYAML(t, rulesFile, &file)
	groups := at(render(t, "--values", full)["PrometheusRule belfry"], "spec", "groups")
	require.NotEmpty(t, groups)
	require.Equal(t, file["groups"], groups)
}

// TestRulesSelectTheirRelease: two releases that one Prometheus scrapes must not count as one cluster, and runbooks may be
// elsewhere. The ServiceMonitor sets the label that the rules select.
func TestRulesSelectTheirRelease(t *testing.T) {
	t.Parallel()
	const runbooks = "https://wiki.example.com/belfry"
	objects := render(t, "--values", full, "--set", "fullnameOverride=prod,metrics.prometheusRule.runbooks="+runbooks)
	rules, err := yaml.Marshal(objects["PrometheusRule prod"])
	require.NoError(t, err)
	want, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	require.Equal(t, strings.Count(string(want), `{job="belfry"`), strings.Count(string(rules), `{job="prod"`))
	require.NotContains(t, string(rules), `job="belfry"`)
	require.Equal(t, strings.Count(string(want), "runbook_url:"), strings.Count(string(rules), runbooks+"#"))
	require.NotContains(t, string(rules), "github.com/belfry-dev")
	monitor, err := yaml.Marshal(objects["ServiceMonitor prod"])
	require.NoError(t, err)
	require.Contains(t, string(monitor), "replacement: prod\n")
}

// TestDashboardsAreThoseOfGrafana: all of them, byte by byte.
func TestDashboardsAreThoseOfGrafana(t *testing.T) {
	t.Parallel()
	data := at(render(t, "--values", full)["ConfigMap belfry-dashboards"], "data")
	files := dashboards(t)
	require.Len(t, data, len(files))
	for name, text := range files {
		require.Equal(t, strings.TrimSpace(text), strings.TrimSpace(at(data, name).(string)), name)
	}
}

// dashboards returns the files of deploy/grafana by name.
func dashboards(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(root + "/deploy/grafana/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	files := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[filepath.Base(name)] = string(text)
	}
	return files
}

// TestPackageIsWhole: in a package, the links of the chart to rules and dashboards are files.
func TestPackageIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, tool(t, "helm"), "package", directory, "--destination", dir)
	names, err := filepath.Glob(filepath.Join(dir, "belfry-*.tgz"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	files := unpack(t, names[0])
	want, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	require.Equal(t, string(want), files["belfry/files/belfry.rules.yaml"])
	for name, text := range dashboards(t) {
		require.Equal(t, text, files["belfry/files/dashboards/"+name])
	}
	require.Contains(t, files, "belfry/values.schema.json")
	for name := range files {
		require.NotRegexp(t, `^belfry/(tests|ci)/`, name, "not for users")
	}
}

func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	files := map[string]string{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(io.LimitReader(r, 1<<20))
		require.NoError(t, err)
		files[h.Name] = string(text)
	}
}
