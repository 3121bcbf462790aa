package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"charm.land/lipgloss/v2"
)

var (
	green = lipgloss.NewStyle().Foreground(lipgloss.Green)
	red   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// outputs are the values of -o.
var outputs = map[string]bool{"table": true, "json": true, "yaml": true}

// show prints an answer: as the server sent it, or as a table for people.
func (r *remote) show(raw []byte, people func() error) error {
	if r.format == "table" {
		return people()
	}
	return write(r.out, r.format, raw)
}

// write prints JSON for programs, as JSON or YAML.
func write(w io.Writer, format string, raw []byte) error {
	if format == "yaml" {
		text, err := yamlOf(raw)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(escapeJSON(b.Bytes()))
	return err
}

// field is a line of a page about one thing.
type field struct{ name, value string }

// writeFields prints those that have a value.
func writeFields(w io.Writer, fields []field) error {
	p := printer{w: w}
	for _, f := range fields {
		if f.value != "" {
			p.line("%s%s", faint.Render(fmt.Sprintf("%-13s ", f.name)), f.value)
		}
	}
	return p.err
}

// stateStyle colours a state by what it means for whoever looks.
func stateStyle(state string) string {
	switch state {
	case "active", "succeeded", "running", "finished":
		return green.Render(state)
	case "paused", "skipped", "cancelled", "waiting", "aborted":
		return yellow.Render(state)
	case "failed", "lost", "revoked", "expired":
		return red.Render(state)
	}
	return state
}

// moment is a time in a zone and in UTC.
func moment(t *time.Time, zone *time.Location) string {
	switch {
	case t == nil || t.IsZero():
		return ""
	case zone == nil || zone == time.UTC:
		return local(t.UTC())
	}
	layout := "15:04:05 UTC"
	if t.In(zone).Day() != t.UTC().Day() {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return local(t.In(zone)) + faint.Render(" ("+t.UTC().Format(layout)+")")
}

// short is a time for tables.
func short(t *time.Time, zone *time.Location) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format("2006-01-02 15:04:05")
}

// dash stands where there is nothing.
func dash(s string) string { return first(s, "-") }
