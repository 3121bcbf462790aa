package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// withoutData are the panels that healthy nodes have no data for, and why.
var withoutData = map[string]string{
	"Alerts":      "no alert fires while all is well",
	"Certificate": "the nodes of this test have no TLS",
}

// asQueries gives the variables of a dashboard the values that Grafana would give them, with all of everything.
var asQueries = strings.NewReplacer("$__rate_interval", "10s", "$__range", "5m", "$job", ".*", "$instance", ".*",
	"$namespace", ".*", "$queue", ".*")

// shownBy is a query of a panel.
type shownBy struct{ dashboard, panel, expr, legend string }

func dashboardQueries(t *testing.T) (all []shownBy) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &d))
		for _, p := range d.Panels {
			for _, x := range p.Targets {
				all = append(all, shownBy{filepath.Base(name), p.Title, asQueries.Replace(x.Expr), x.LegendFormat})
			}
		}
	}
	return all
}

// dashboardJob makes the jobs differ: each kind of outcome is in the metrics.
func (c *cluster) dashboardJob(i int, in *job.NewJob) {
	d := &in.Definition
	to := func(path string) { d.Target.Config = json.RawMessage(`{"url":"` + c.sink.url + path + `"}`) }
	switch i % 4 {
	case 1:
		to("/fail")
		d.Retry.MaxAttempts = 1
	case 2:
		to("/retry")
	case 3:
		pulled(i, in)
	}
}

// TestDashboards: each expression of each dashboard returns data on a real Prometheus that scrapes two loaded nodes.
func TestDashboards(t *testing.T) {
	t.Parallel()
	if os.Getenv("BELFRY_PROMETHEUS") == "" {
		t.Skip("BELFRY_PROMETHEUS is not set; run: make test-dashboards")
	}
	c := newCluster(t, setup{nodes: 2, api: true})
	p := newPrometheus(t, "../../deploy/prometheus/belfry.rules.yaml", c.nodes)
	c.balanced()
	c.create(20, time.Hour, c.dashboardJob)
	worker := c.workers().start("", 10)
	defer func() { _ = worker.Process.Kill(); _ = worker.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go c.caller(10 * time.Second).list(ctx)
	p.scraped(t, 2, 20)

	found, empty := 0, map[string]bool{}
	for _, q := range dashboardQueries(t) {
		if _, ok := withoutData[q.panel]; ok {
			empty[q.panel] = true
			_, err := p.query(ctx, q.expr) // it is valid; on a busy machine, an alert may fire
			require.NoError(t, err)
			continue
		}
		var got []series
		var err error
		waited := until(ctx, func() bool { // some gauges are read every 15 s, and the audit takes a sample every minute
			got, err = p.query(ctx, q.expr)
			return err != nil || hasNumber(got)
		})
		require.NoError(t, err)
		require.NoError(t, waited, "%s: %s returns nothing: %s", q.dashboard, q.panel, q.expr)
		for _, s := range got {
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.legend, -1) {
				require.Contains(t, s.labels, label[1], "%s: the legend of %s: %s", q.dashboard, q.panel, q.expr)
			}
		}
		found++
	}
	require.Len(t, empty, len(withoutData), "a panel without data that does not exist")
	t.Logf("%d expressions of 4 dashboards return data, %d panels have none: %v", found, len(empty), withoutData)
}

func hasNumber(all []series) bool {
	for _, s := range all {
		if !math.IsNaN(s.value) {
			return true
		}
	}
	return false
}

// list reads lists until ctx ends, so that the API has traffic.
func (u *caller) list(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		u.call(ctx, "GET", fmt.Sprintf("/jobs?page_size=%d", 1+i%20), "")
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
