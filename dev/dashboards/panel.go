package main

import "strings"

// prometheus is the data source that the reader of a dashboard chooses.
var prometheus = source{Type: "prometheus", UID: "${datasource}"}

// query is one expression of a panel and the name of its series.
type query struct{ expr, legend string }

// Widths and heights, in the 24 columns and the lines of Grafana.
const (
	columns    = 24
	statWidth  = 4
	statHeight = 4
	graphWidth = 8
	graphLines = 8
)

// row is a heading. The panels after it are below it.
func row(title string) panel {
	no, none := false, []panel{}
	return panel{Type: "row", Title: title, GridPos: gridPos{W: columns, H: 1}, Collapsed: &no, Panels: &none}
}

func base(kind, title, description, unit string, queries []query) panel {
	p := panel{
		Type: kind, Title: title, Description: description, Datasource: &prometheus,
		GridPos: gridPos{W: graphWidth, H: graphLines},
		FieldConfig: &fieldConfig{
			Defaults:  defaults{Unit: unit, Thresholds: levels("green")},
			Overrides: []override{},
		},
	}
	for i, q := range queries {
		p.Targets = append(p.Targets, target{
			RefID: string(rune('A' + i)), Datasource: prometheus, Expr: strings.TrimSpace(q.expr), LegendFormat: q.legend,
			Format: "time_series", Range: true,
		})
	}
	return p
}

// graph shows series over time.
func graph(title, description, unit string, queries ...query) panel {
	p := base("timeseries", title, description, unit, queries)
	p.FieldConfig.Defaults.Color = &color{Mode: "palette-classic"}
	p.FieldConfig.Defaults.Min = number(0)
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
	}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// stacked is for series that add up to something.
func (p panel) stacked() panel {
	p.FieldConfig.Defaults.Custom.(map[string]any)["stacking"] = map[string]any{"mode": "normal", "group": "A"}
	p.FieldConfig.Defaults.Custom.(map[string]any)["fillOpacity"] = 40
	return p
}

// number as a pointer: 0 is a value.
func number(f float64) *float64 { return &f }

// levels are colours and the values from which on they apply, in turns: "green", 1.0, "red".
func levels(first string, more ...any) thresholds {
	out := thresholds{Mode: "absolute", Steps: []threshold{{Color: first}}}
	for i := 0; i+1 < len(more); i += 2 {
		out.Steps = append(out.Steps, threshold{Color: more[i+1].(string), Value: number(more[i].(float64))})
	}
	return out
}

// stat shows one number, coloured by its level.
func stat(title, description, unit, expr string, level thresholds) panel {
	p := base("stat", title, description, unit, []query{{expr, title}})
	p.GridPos = gridPos{W: statWidth, H: statHeight}
	p.FieldConfig.Defaults.Color = &color{Mode: "thresholds"}
	p.FieldConfig.Defaults.Thresholds = level
	p.FieldConfig.Defaults.NoValue = "none"
	p.Options = map[string]any{
		"colorMode": "background", "graphMode": "none", "justifyMode": "auto", "textMode": "value", "wideLayout": true,
		"showPercentChange": false, "percentChangeColorMode": "standard", "orientation": "auto",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// heatmap shows the buckets of a histogram over time.
func heatmap(title, description, expr string) panel {
	p := base("heatmap", title, description, "short", []query{{expr, "{{le}}"}})
	p.Targets[0].Format = "heatmap"
	p.FieldConfig.Defaults.Custom = map[string]any{"scaleDistribution": map[string]any{"type": "linear"}}
	p.Options = map[string]any{
		"calculate": false, "cellGap": 1, "showValue": "never",
		"color": map[string]any{
			"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "scale": "exponential", "exponent": 0.5,
			"steps": 64, "reverse": false,
		},
		"exemplars": map[string]any{"color": "rgba(255,0,255,0.7)"},
		"legend":    map[string]any{"show": true},
		"tooltip":   map[string]any{"mode": "single", "showColorScale": true, "yHistogram": false},
		"yAxis":     map[string]any{"axisPlacement": "left", "reverse": false, "unit": "s"},
	}
	return p
}

// half makes the panel as wide as half a line.
func (p panel) half() panel {
	p.GridPos.W = columns / 2
	return p
}

// share limits the axis to shares of 1.
func (p panel) share() panel {
	p.FieldConfig.Defaults.Max = number(1)
	return p
}

// ui links the panel to a page of Belfry's web UI.
func (p panel) ui(page string) panel {
	p.Links = []link{webUI("Open in Belfry", page)}
	return p
}

func webUI(title, page string) link {
	return link{
		Title: title, Type: "link", URL: "${ui}/" + page, Tooltip: "the web UI of Belfry", Icon: "external link",
		Tags: []string{}, TargetBlank: true,
	}
}

// place gives panels their ids and positions: from left to right, and below if the line is full.
func place(panels []panel) []panel {
	x, y, height := 0, 0, 0
	for i := range panels {
		p := &panels[i]
		p.ID = i + 1
		if x+p.GridPos.W > columns || p.Type == "row" {
			x, y, height = 0, y+height, 0
		}
		p.GridPos.X, p.GridPos.Y = x, y
		x, height = x+p.GridPos.W, max(height, p.GridPos.H)
		if p.Type == "row" {
			x, y, height = 0, y+1, 0
		}
	}
	return panels
}
