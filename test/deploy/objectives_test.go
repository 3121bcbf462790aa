package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var promql = regexp.MustCompile("(?s)```promql\n(.*?)```")

// objectives returns the expressions of the page on objectives.
func objectives(t *testing.T) (out []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/guide/objectives.md")
	require.NoError(t, err)
	for _, found := range promql.FindAllStringSubmatch(string(page), -1) {
		out = append(out, found[1])
	}
	require.NotEmpty(t, out)
	return out
}

func TestObjectivesUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := knownMetrics(t)
	for _, expr := range objectives(t) {
		names := metricName.FindAllString(expr, -1)
		require.NotEmpty(t, names, expr)
		for _, name := range names {
			require.True(t, known[name], "%s, which no node exports", name)
		}
	}
}

// TestObjectivesAreExpressions, and a time in which no node answers counts as not available.
func TestObjectivesAreExpressions(t *testing.T) {
	t.Parallel()
	tool, dir := promtool(t), t.TempDir()
	write := func(name string, value any) string {
		raw, err := yaml.Marshal(value)
		require.NoError(t, err)
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, raw, 0o600))
		return file
	}
	type object = map[string]any
	var rules []object
	available := ""
	for i, expr := range objectives(t) {
		rules = append(rules, object{"record": fmt.Sprintf("objective:%d", i), "expr": expr})
		if strings.Contains(expr, "vector(0)") {
			available = strings.ReplaceAll(expr, "[30d:1m]", "[1h:1m]")
		}
	}
	run(t, tool, "check", "rules", write("rules.yaml", object{"groups": []object{{"name": "objectives", "rules": rules}}}))
	require.NotEmpty(t, available)
	is := func(expr string) []object {
		return []object{{"expr": expr, "eval_time": "1h", "exp_samples": []object{{"labels": "{}", "value": 1}}}}
	}
	series := func(doubt, until string) []object {
		return []object{
			{"series": `belfry_partitions_owned{job="belfry", instance="a"}`, "values": "128x" + until},
			{"series": `belfry_partitions_owned{job="belfry", instance="b"}`, "values": "128x" + until},
			{"series": `belfry_clock_in_doubt{job="belfry", instance="a"}`, "values": doubt + "x" + until},
		}
	}
	run(t, tool, "test", "rules", write("test.yaml", object{"evaluation_interval": "1m", "tests": []object{
		{"name": "always", "interval": "1m", "input_series": series("0", "60"), "promql_expr_test": is(available)},
		{"name": "half", "interval": "1m", "input_series": series("0", "30"), "promql_expr_test": is(available + "< bool 0.7")},
		{"name": "in doubt", "interval": "1m", "input_series": series("1", "60"), "promql_expr_test": is(available + "== bool 0")},
	}}))
}
