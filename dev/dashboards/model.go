package main

// The JSON of a dashboard, as far as these dashboards use it. test/deploy compares the files with Grafana's own types.

type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"`
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Timezone      string     `json:"timezone"`
	Links         []link     `json:"links"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	URL         string   `json:"url,omitempty"`
	Tooltip     string   `json:"tooltip"`
	Icon        string   `json:"icon"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

type option struct {
	Selected bool   `json:"selected"`
	Text     string `json:"text"`
	Value    string `json:"value"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type variable struct {
	Name        string  `json:"name"`
	Label       string  `json:"label"`
	Description string  `json:"description"`
	Type        string  `json:"type"`
	Datasource  *source `json:"datasource,omitempty"`
	Query       any     `json:"query"`
	Refresh     int     `json:"refresh,omitempty"`
	Sort        int     `json:"sort,omitempty"`
	IncludeAll  bool    `json:"includeAll,omitempty"`
	AllValue    string  `json:"allValue,omitempty"`
	Multi       bool    `json:"multi,omitempty"`
	Current     *option `json:"current,omitempty"`
}

// panel is a panel or, without targets, the heading of a row.
type panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	GridPos     gridPos      `json:"gridPos"`
	Datasource  *source      `json:"datasource,omitempty"`
	Targets     []target     `json:"targets,omitempty"`
	FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
	Links       []link       `json:"links,omitempty"`
	Collapsed   *bool        `json:"collapsed,omitempty"`
	Panels      *[]panel     `json:"panels,omitempty"`
}

type gridPos struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

type target struct {
	RefID        string `json:"refId"`
	Datasource   source `json:"datasource"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Format       string `json:"format"`
	Instant      bool   `json:"instant"`
	Range        bool   `json:"range"`
}

type fieldConfig struct {
	Defaults  defaults   `json:"defaults"`
	Overrides []override `json:"overrides"`
}

type defaults struct {
	Unit       string     `json:"unit"`
	Decimals   *int       `json:"decimals,omitempty"`
	Min        *float64   `json:"min,omitempty"`
	Max        *float64   `json:"max,omitempty"`
	NoValue    string     `json:"noValue,omitempty"`
	Color      *color     `json:"color,omitempty"`
	Thresholds thresholds `json:"thresholds"`
	Custom     any        `json:"custom,omitempty"`
}

type color struct {
	Mode string `json:"mode"`
}

type thresholds struct {
	Mode  string      `json:"mode"`
	Steps []threshold `json:"steps"`
}

type threshold struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

type override struct {
	Matcher    matcher    `json:"matcher"`
	Properties []property `json:"properties"`
}

type matcher struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

type property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}
