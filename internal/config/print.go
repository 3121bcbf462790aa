package config

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"
)

// shown is one setting for those who print it, without secrets.
type shown struct {
	Value  any    `json:"value" yaml:"value"`
	Source string `json:"source" yaml:"source"`
}

// Show prints the settings and where each came from: as table, json or yaml.
func (v *Values) Show(w io.Writer, output string) error {
	settings := reflect.ValueOf(v.Config)
	switch output {
	case "table":
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "SETTING\tVALUE\tSOURCE") // a failure shows in Flush
		for _, f := range fields {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", f.key, f.show(settings.FieldByIndex(f.index)), v.Source(f.key))
		}
		return table.Flush()
	case "json", "yaml":
		out := map[string]shown{}
		for _, f := range fields {
			value := settings.FieldByIndex(f.index)
			s := shown{Value: f.show(value), Source: v.Source(f.key).String()}
			if kind := f.typeName(); kind == "number" || kind == "bool" {
				s.Value = value.Interface()
			}
			out[f.key] = s
		}
		if output == "yaml" {
			enc := yaml.NewEncoder(w)
			enc.SetIndent(2)
			return enc.Encode(out)
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	default:
		return fmt.Errorf("-o %s: use table, json or yaml", output)
	}
}

// Example prints a configuration file with all defaults, each explained.
func Example(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Configuration of Belfry. A flag is stronger than the environment, which is stronger\n# than this file. All values below are the defaults.\n")
	section := ""
	for _, f := range fields {
		name, indent := f.key, ""
		b.WriteString("\n")
		if s, rest, ok := strings.Cut(f.key, "."); ok {
			name, indent = rest, "  "
			if s != section {
				fmt.Fprintf(&b, "%s:\n", s)
				section = s
			}
		}
		fmt.Fprintf(&b, "%s# %s.\n%s# Accepted: %s. Also %s and --%s.\n", indent, strings.ToUpper(f.help[:1])+f.help[1:], indent, f.accepted(), f.env(), f.flag())
		if f.fallback == "" {
			fmt.Fprintf(&b, "%s# %s:\n", indent, name)
			continue
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, f.fallback)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Reference prints the page of the documentation that lists the settings.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made by make generate/config from internal/config/config.go. -->

Settings of ` + "`belfry server`" + ` and ` + "`belfry migrate`" + `. Each can be given as a flag, as an environment variable and in a YAML file,
which ` + "`--" + FileKey + "` or `" + envName(FileKey) + "`" + ` names: flag > environment > file > default. An empty variable counts as not set.

- ` + "`belfry config example`" + ` prints a file with all defaults, explained.
- ` + "`belfry config check FILE`" + ` says what is wrong with a file. An unknown setting is an error.
- ` + "`belfry config show`" + ` prints the settings in force and where each came from, without passwords.

Durations are written like 30s, 15m, 1h30m or 7d.

| setting | default | accepted | environment | flag | |
|---|---|---|---|---|---|
`)
	for _, f := range fields {
		fallback := "empty"
		if f.fallback != "" {
			fallback = "`" + f.fallback + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | `--%s` | %s |\n", f.key, fallback, f.accepted(), f.env(), f.flag(), f.help)
	}
	b.WriteString(`
## What belongs together

- ` + "`look_ahead`" + ` must be at least twice ` + "`session_ttl`" + `: the runs of a node that dies must be planned before another takes over.
- ` + "`drain`" + ` should be longer than the timeout of most jobs, and the service manager must wait longer than it: what is under way
  when it ends is delivered again by another node.
- ` + "`session_ttl`" + ` is how long the runs of a node that was killed wait, and how long a node may be cut off from the database
  before it loses its partitions. Nodes of one cluster may differ in it.
- ` + "`tls_cert` and `tls_key`" + ` are set together. Without them ` + "`listen`" + ` must be a loopback address, or ` + "`insecure_listen`" + ` must say that a proxy
  in front of the node ends TLS: keys must not cross a network in the clear.
- The database's password belongs into the environment or into ` + "`database_url_file`" + `, not on the command line. It is never printed.
`)
	_, err := io.WriteString(w, b.String())
	return err
}
