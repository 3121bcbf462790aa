package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/clock"
)

// The shipped rules, with shorter windows, so that alerts resolve within minutes. What is up to two minutes stays as it
// is, because a takeover takes as long in a test as elsewhere.
const (
	ratioFactor = 120 // ranges of recording rules: 5m is 2.5s, 6h is 3m
	alertFactor = 5   // ranges, offsets and for of alerts, above two minutes: 15m is 3m
)

var (
	ranges  = regexp.MustCompile(`\[(\w+)\]`)
	offsets = regexp.MustCompile(`(offset )(\w+)`)
)

// shorter divides a duration of Prometheus.
func shorter(t *testing.T, text string, factor int) string {
	t.Helper()
	d, err := time.ParseDuration(strings.Replace(strings.Replace(text, "3d", "72h", 1), "1d", "24h", 1))
	require.NoError(t, err)
	if factor == alertFactor && d <= 2*time.Minute {
		return text
	}
	return fmt.Sprintf("%dms", (d / time.Duration(factor)).Milliseconds())
}

// shortRules writes the shipped rules with shorter windows to a file.
func shortRules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/belfry.rules.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string           `yaml:"name"`
			Rules []map[string]any `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			factor := alertFactor
			if r["record"] != nil {
				factor = ratioFactor
			}
			expr := ranges.ReplaceAllStringFunc(r["expr"].(string), func(s string) string {
				return "[" + shorter(t, strings.Trim(s, "[]"), factor) + "]"
			})
			r["expr"] = offsets.ReplaceAllStringFunc(expr, func(s string) string {
				return "offset " + shorter(t, strings.TrimPrefix(s, "offset "), factor)
			})
			if wait, ok := r["for"].(string); ok {
				r["for"] = shorter(t, wait, factor)
			}
		}
	}
	text, err = yaml.Marshal(file)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// alarms are the alerts of one cluster, as Prometheus has them.
type alarms struct {
	*cluster
	p     *prometheus
	ctx   context.Context
	fault time.Duration // when it happened
	fired map[string]time.Duration
	over  time.Time     // when the fault was over, by the database clock
	quiet time.Duration // from then on until no alert was left
}

// newAlarms starts Prometheus, and waits until the cluster runs and nothing alerts.
func newAlarms(t *testing.T, c *cluster) *alarms {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	a := &alarms{cluster: c, ctx: ctx, fired: map[string]time.Duration{}}
	c.balanced()
	a.p = newPrometheus(t, shortRules(t), c.nodes)
	a.p.scraped(t, len(c.nodes), 60)
	a.silent()
	return a
}

// alertsWhere returns the names of alerts in a state, with their queue. Nodes are not distinguished.
func (a *alarms) alertsWhere(expr string) (map[string]bool, error) {
	found, err := a.p.query(a.ctx, expr)
	out := map[string]bool{}
	for _, s := range found {
		name := s.labels["alertname"]
		if queue := s.labels["queue"]; queue != "" {
			name += " " + queue
		}
		out[name] = true
	}
	return out, err
}

// begin is when the fault happens.
func (a *alarms) begin() { a.fault, a.quiet = clock.Elapsed(), 0 }

// busy returns how many runs were late that the fault cannot have delayed: the machine has other work.
func (a *alarms) busy() (late int) {
	_ = a.pool.QueryRow(a.ctx, `
SELECT count(*) FROM run_history
WHERE run_at > $1 AND started_at > run_at + interval '1 s' AND started_at > clock_timestamp() - interval '5 min'`,
		a.over.Add(time.Minute)).Scan(&late) // no answer is no excuse
	return late
}

// fire waits until alerts fire, all at the same time or one after the other.
func (a *alarms) fire(names ...string) {
	a.t.Helper()
	for _, name := range names {
		a.fired[name] = 0
	}
	err := until(a.ctx, func() bool {
		now, err := a.alertsWhere(`ALERTS{alertstate="firing"}`)
		for name := range now {
			if after, ok := a.fired[name]; ok && after == 0 && err == nil {
				a.fired[name] = clock.Elapsed() - a.fault
			}
		}
		return !slices.Contains(slices.Collect(maps.Values(a.fired)), 0)
	})
	require.NoError(a.t, err, "fired after: %v", a.fired)
}

// silent waits until no alert fires or is about to. Alerts on lateness may fire on, if the machine is too busy.
func (a *alarms) silent() {
	a.t.Helper()
	begun := clock.Elapsed()
	a.over = a.now()
	var left map[string]bool
	require.NoError(a.t, until(a.ctx, func() (done bool) {
		var err error
		left, err = a.alertsWhere(`ALERTS`)
		if a.busy() > 0 {
			maps.DeleteFunc(left, func(name string, _ bool) bool { return strings.HasPrefix(name, "BelfryRunsLate") })
		}
		return err == nil && len(left) == 0
	}), "not resolved: %v", left)
	a.quiet = max(a.quiet, clock.Elapsed()-begun)
}

// judge compares all alerts that ever fired with those that were expected. Lateness may be real without being
// expected: then the ledger has it too.
func (a *alarms) judge() string {
	a.t.Helper()
	all, err := a.alertsWhere(`count_over_time(ALERTS{alertstate="firing"}[1h])`)
	require.NoError(a.t, err)
	var late int
	require.NoError(a.t, a.pool.QueryRow(a.t.Context(),
		`SELECT count(*) FROM run_history WHERE started_at > run_at + interval '1 s'`).Scan(&late))
	var more []string
	for name := range all {
		if _, ok := a.fired[name]; !ok && late > 0 && strings.HasPrefix(name, "BelfryRunsLate") {
			more = append(more, fmt.Sprintf("%s (%d runs were late)", name, late))
			delete(all, name)
		}
	}
	slices.Sort(more)
	require.ElementsMatch(a.t, slices.Collect(maps.Keys(a.fired)), slices.Collect(maps.Keys(all)),
		"alerts that are expected and that fired")
	var cells []string
	for _, name := range slices.Sorted(maps.Keys(a.fired)) {
		cells = append(cells, fmt.Sprintf("%s (%s)", name, a.fired[name].Round(time.Second)))
	}
	return strings.Join(append(cells, more...), ", ") + " | " + a.quiet.Round(time.Second).String()
}
