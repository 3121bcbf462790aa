// Package deploy tests what is shipped in deploy.
package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const rulesFile = "../../deploy/prometheus/belfry.rules.yaml"

type ruleFile struct {
	Groups []struct {
		Name  string `json:"name" yaml:"name"`
		Rules []rule `json:"rules" yaml:"rules"`
	} `json:"groups" yaml:"groups"`
}

type rule struct {
	Record      string            `json:"record" yaml:"record"`
	Alert       string            `json:"alert" yaml:"alert"`
	Expr        string            `json:"expr" yaml:"expr"`
	For         string            `json:"for" yaml:"for"`
	Labels      map[string]string `json:"labels" yaml:"labels"`
	Annotations map[string]string `json:"annotations" yaml:"annotations"`
}

func readRules(t *testing.T) (f ruleFile) {
	t.Helper()
	readYAML(t, rulesFile, &f)
	return f
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

var (
	metricName = regexp.MustCompile(`\b(belfry_[a-z_]+|belfry:[a-z_]+:[a-z0-9_]+)`)
	selectors  = regexp.MustCompile(`\bbelfry[_:][a-z0-9_:]+(\{job="belfry"[,}])?`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(belfry_[a-z_]+)` \\| (\\w+) \\|")
	heading    = regexp.MustCompile(`(?m)^## (\w+)$`)
)

// knownMetrics are those that nodes export (docs/reference/metrics.md lists them, which a test of internal/app compares) and
// those that rules record.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		known[row[1]] = true
		if row[2] == "histogram" {
			known[row[1]+"_bucket"], known[row[1]+"_count"], known[row[1]+"_sum"] = true, true, true
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				known[r.Record] = true
			}
		}
	}
	return known
}

func TestRulesUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	known, file := knownMetrics(t), readRules(t)
	uses := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			for _, name := range metricName.FindAllString(r.Expr, -1) {
				require.True(t, known[name], "%s%s uses %s, which no node exports", r.Alert, r.Record, name)
				uses++
			}
			for _, selected := range selectors.FindAllString(r.Expr, -1) {
				require.Regexp(t, `^belfry:|\{job="belfry"`, selected, "%s%s mixes clusters", r.Alert, r.Record)
			}
		}
	}
	require.Greater(t, uses, 40, "the pattern does not find the metrics any more")
}

// TestAlertsHaveRunbooks: each alert links to its heading, and each heading is that of an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/runbooks.md")
	require.NoError(t, err)
	books := map[string]string{}
	found := heading.FindAllStringSubmatchIndex(string(page), -1)
	for i, at := range found {
		end := len(page)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		books[string(page[at[2]:at[3]])] = string(page[at[1]:end])
	}
	alerts := 0
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			require.Contains(t, books, r.Alert)
			for _, part := range []string{"**Means.**", "**Look.**", "**Do.**", "**Do not.**"} {
				require.Contains(t, books[r.Alert], part, r.Alert)
			}
			_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "docs/guide/runbooks.md#")
			require.Equal(t, strings.ToLower(r.Alert), anchor)
			require.NotEmpty(t, r.Annotations["summary"])
			require.Contains(t, []string{"page", "ticket"}, r.Labels["severity"])
		}
	}
	require.Len(t, books, alerts, "a runbook without an alert")
}

// TestEachAlertIsTested: with promtool, it fires in one test and stays silent in another one.
func TestEachAlertIsTested(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	readYAML(t, "../../deploy/prometheus/belfry.rules.test.yaml", &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				silent[a.Name] = true
			}
		}
	}
	alerts := 0
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts++
				require.True(t, fires[r.Alert], "no test in which %s fires", r.Alert)
				require.True(t, silent[r.Alert], "no test in which %s is silent", r.Alert)
			}
		}
	}
	require.Len(t, fires, alerts, "a test of an alert that there is not")
}

// promtool returns the promtool to test with: that of PROMTOOL, or the one that is installed.
func promtool(t *testing.T) string {
	t.Helper()
	name := os.Getenv("PROMTOOL")
	if name == "" {
		name = "promtool"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip("promtool is not installed; make test-deploy says how to install it: ", err)
	}
	return path
}

func run(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return out
}

func TestRulesByPromtool(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	t.Logf("%s", run(t, tool, "--version"))
	run(t, tool, "check", "rules", rulesFile)
	run(t, tool, "test", "rules", "../../deploy/prometheus/belfry.rules.test.yaml")
}

// TestMixin: it has the rules of the file, and its settings change them.
func TestMixin(t *testing.T) {
	t.Parallel()
	jsonnet := os.Getenv("JSONNET")
	if jsonnet == "" {
		t.Skip("JSONNET is not set; make test-prometheus3 builds it")
	}
	render := func(config string) (text []byte, f ruleFile) {
		mixin, err := filepath.Abs("../../deploy/prometheus/mixin.libsonnet")
		require.NoError(t, err)
		text = run(t, jsonnet, "-e", "local m = (import '"+mixin+"') + {_config+:: {"+config+"}};"+
			"{groups: m.prometheusRules.groups + m.prometheusAlerts.groups}")
		require.NoError(t, json.Unmarshal(text, &f))
		return text, f
	}
	_, same := render("")
	require.Equal(t, readRules(t), same)
	changed, _ := render(`selector: 'job="scheduler"', onTimeSeconds: '5', runbooks: 'https://runbooks.example/belfry'`)
	for _, gone := range []string{`job=\"belfry\"`, `le=~\"1(`, "belfry-dev"} {
		require.NotContains(t, string(changed), gone)
	}
	for _, there := range []string{`up{job=\"scheduler\"}`, `le=~\"5([.]0)?\"`, "https://runbooks.example/belfry#belfrydown"} {
		require.Contains(t, string(changed), there)
	}
	file := filepath.Join(t.TempDir(), "rules.json")
	require.NoError(t, os.WriteFile(file, changed, 0o600))
	run(t, promtool(t), "check", "rules", file)
}
