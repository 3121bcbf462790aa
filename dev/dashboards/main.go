// Command dashboards writes the Grafana dashboards of Belfry into a directory, one JSON file each.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIRECTORY")
		os.Exit(2)
	}
	for _, d := range []dashboard{cluster(), queues(), targets(), nodes()} {
		if err := write(os.Args[1], d); err != nil {
			fmt.Fprintln(os.Stderr, "dashboards:", err)
			os.Exit(1)
		}
	}
}

func write(dir string, d dashboard) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, d.UID+".json"), append(text, '\n'), 0o644)
}

// newDashboard has what all four have in common. The labels are those that its reader can select by, besides the job.
func newDashboard(uid, title, description string, labels []string, panels ...panel) dashboard {
	d := dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"belfry"}, SchemaVersion: 39, Editable: true,
		GraphTooltip: 1, Refresh: "30s", Time: timeRange{From: "now-3h", To: "now"}, Timezone: "browser",
		Links: []link{
			{
				Title: "Belfry", Type: "dashboards", Tooltip: "the other dashboards", Icon: "dashboard",
				Tags: []string{"belfry"}, IncludeVars: true, KeepTime: true,
			},
			webUI("Web UI", ""),
		},
		Panels: place(panels),
	}
	d.Templating.List = []variable{
		{
			Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus",
			Description: "the Prometheus that scrapes the nodes",
		},
		labelled("job", "Cluster", "the job of Prometheus that scrapes the nodes of a cluster", "belfry_build_info"),
	}
	for _, name := range labels {
		d.Templating.List = append(d.Templating.List, selectable[name])
	}
	d.Templating.List = append(d.Templating.List, variable{
		Name: "ui", Label: "Web UI", Type: "textbox", Query: uiAddress,
		Description: "the address of Belfry's web UI, for links", Current: &option{true, uiAddress, uiAddress},
	})
	return d
}

// uiAddress is that of a node with the default settings.
const uiAddress = "http://127.0.0.1:8420/ui"

var selectable = map[string]variable{
	"instance": labelled("instance", "Node", "the nodes to show", `belfry_build_info{job=~"$job"}`),
	"namespace": labelled("namespace", "Namespace", "the namespaces to show; (other) adds up those without labels",
		`belfry_queue_runs{job=~"$job"}`),
	"queue": labelled("queue", "Queue", "the queues to show; (other) adds up those without labels",
		`belfry_queue_runs{job=~"$job", namespace=~"$namespace"}`),
}

// labelled is a variable of the values that a label has. "All" is a pattern of its own: without it, Grafana would list
// every value, and a query with hundreds of them is slow or too long.
func labelled(name, label, description, of string) variable {
	text := "label_values(" + of + ", " + name + ")"
	return variable{
		Name: name, Label: label, Description: description, Type: "query", Datasource: &prometheus,
		Query:   map[string]any{"query": text, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
		Refresh: 2, Sort: 1, IncludeAll: true, AllValue: ".*", Multi: true,
		Current: &option{true, "All", "$__all"},
	}
}
