package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// grafana is what the checks read of a dashboard. dev/grafana/test compares the whole files with Grafana's types.
type grafana struct {
	file       string
	UID        string           `json:"uid"`
	Title      string           `json:"title"`
	Links      []map[string]any `json:"links"`
	Templating struct {
		List []struct {
			Name, Type, AllValue string
			IncludeAll           bool
			Query                any
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID          int                      `json:"id"`
		Type        string                   `json:"type"`
		Title       string                   `json:"title"`
		Description string                   `json:"description"`
		GridPos     struct{ X, Y, W, H int } `json:"gridPos"`
		Links       []map[string]any         `json:"links"`
		Datasource  struct{ UID string }
		Targets     []struct {
			Expr, LegendFormat string
			Datasource         struct{ UID string }
		} `json:"targets"`
		FieldConfig struct {
			Defaults struct{ Unit string } `json:"defaults"`
		} `json:"fieldConfig"`
	} `json:"panels"`
}

func readDashboards(t *testing.T) (all []grafana) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		d := grafana{file: filepath.Base(name)}
		require.NoError(t, json.Unmarshal(text, &d))
		all = append(all, d)
	}
	return all
}

// expressions are all strings of the dashboard that Grafana replaces variables in.
func (d *grafana) expressions() (all []string) {
	add := func(links []map[string]any) {
		for _, l := range links {
			url, _ := l["url"].(string)
			all = append(all, url)
		}
	}
	add(d.Links)
	for _, v := range d.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			all = append(all, q["query"].(string))
		}
	}
	for _, p := range d.Panels {
		add(p.Links)
		all = append(all, p.Datasource.UID)
		for _, x := range p.Targets {
			all = append(all, x.Expr, x.Datasource.UID)
		}
	}
	return all
}

var variableUse = regexp.MustCompile(`\$\{?(\w+)`)

// TestDashboardVariables: each variable is used, each that is used exists, and "All" is one pattern.
func TestDashboardVariables(t *testing.T) {
	t.Parallel()
	for _, d := range readDashboards(t) {
		unused := map[string]bool{}
		for _, v := range d.Templating.List {
			require.NotContains(t, unused, v.Name, "%s: a variable twice", d.file)
			unused[v.Name] = true
			if v.Type == "query" {
				require.True(t, v.IncludeAll && v.AllValue == ".*", "%s: $%s has no value for all", d.file, v.Name)
			}
		}
		known := len(unused)
		used := map[string]bool{}
		for _, text := range d.expressions() {
			for _, found := range variableUse.FindAllStringSubmatch(text, -1) {
				if name := found[1]; name != "__rate_interval" && name != "__range" {
					require.Contains(t, unused, name, "%s: no variable in %s", d.file, text)
					used[name] = true
				}
			}
		}
		require.Len(t, used, known, "%s: dead variables; used are %v", d.file, used)
	}
}

// TestDashboardPanels: ids are unique, no panel covers another one, and each says what it shows and in which unit.
func TestDashboardPanels(t *testing.T) {
	t.Parallel()
	uids, titles := map[string]bool{}, map[string]bool{}
	for _, d := range readDashboards(t) {
		require.False(t, uids[d.UID] || titles[d.Title], "%s: its uid or title is that of another one", d.file)
		require.Equal(t, d.UID+".json", d.file)
		uids[d.UID], titles[d.Title] = true, true
		ids, taken, linked := map[int]bool{}, map[[2]int]string{}, 0
		for _, p := range d.Panels {
			require.False(t, ids[p.ID], "%s: the id of %s is taken", d.file, p.Title)
			ids[p.ID] = true
			require.True(t, p.GridPos.W > 0 && p.GridPos.H > 0 && p.GridPos.X+p.GridPos.W <= 24, "%s: %s", d.file, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.NotContains(t, taken, at, "%s: %s covers another panel", d.file, p.Title)
					taken[at] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			require.NotEmpty(t, p.Description, "%s: %s", d.file, p.Title)
			require.NotEmpty(t, p.FieldConfig.Defaults.Unit, "%s: %s", d.file, p.Title)
			require.NotEmpty(t, p.Targets, "%s: %s", d.file, p.Title)
			require.Equal(t, "${datasource}", p.Datasource.UID, "%s: %s", d.file, p.Title)
			linked += len(p.Links)
		}
		require.Positive(t, linked, "%s: no panel links to the web UI", d.file)
	}
}

var (
	fixedRange = regexp.MustCompile(`\[([^\]]*)\]`)
	webPage    = regexp.MustCompile(`(?m)screen\('/([a-z-]*)'`)
)

// TestDashboardExpressions: they use metrics that nodes export or rules record, and select the cluster.
func TestDashboardExpressions(t *testing.T) {
	t.Parallel()
	known := knownMetrics(t)
	uses := 0
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, x := range p.Targets {
				for _, name := range metricName.FindAllString(x.Expr, -1) {
					require.True(t, known[name], "%s: %s uses %s, which no node exports", d.file, p.Title, name)
					uses++
				}
				require.Equal(t, strings.Count(x.Expr, "{")-strings.Count(x.Expr, "ALERTS{"), strings.Count(x.Expr, `{job=~"$job"`),
					"%s: %s mixes clusters", d.file, p.Title)
				for _, found := range fixedRange.FindAllStringSubmatch(strings.ReplaceAll(x.Expr, `"1([.]0)?"`, ""), -1) {
					require.Contains(t, []string{"$__rate_interval", "$__range"}, found[1], "%s: %s", d.file, p.Title)
				}
			}
		}
	}
	require.Greater(t, uses, 80, "the pattern does not find the metrics any more")
}

// TestDashboardLinks: the pages that panels link to are those of the web UI.
func TestDashboardLinks(t *testing.T) {
	t.Parallel()
	router, err := os.ReadFile("../../web/src/router.tsx")
	require.NoError(t, err)
	pages := map[string]bool{}
	for _, found := range webPage.FindAllStringSubmatch(string(router), -1) {
		pages[found[1]] = true
	}
	for _, d := range readDashboards(t) {
		for _, text := range d.expressions() {
			if page, ok := strings.CutPrefix(text, "${ui}/"); ok {
				require.Contains(t, pages, page, "%s links to a page that does not exist", d.file)
			}
		}
	}
}
