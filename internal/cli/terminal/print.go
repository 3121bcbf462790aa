package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/belfry-dev/belfry/internal/cli/yamljson"
)

// The styles of the command line. lipgloss omits them if the output is not a terminal.
var (
	Faint  = lipgloss.NewStyle().Faint(true)
	Strong = lipgloss.NewStyle().Bold(true)
	Green  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	Yellow = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	Red    = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// Printer prints lines and keeps the first error, so callers check it once at the end.
type Printer struct {
	w   io.Writer
	err error
}

// NewPrinter returns a Printer that writes to w.
func NewPrinter(w io.Writer) *Printer { return &Printer{w: w} }

// Line prints one line.
func (p *Printer) Line(format string, args ...any) { p.Part(format+"\n", args...) }

// Part prints without a line break.
func (p *Printer) Part(format string, args ...any) {
	if p.err == nil {
		_, p.err = lipgloss.Fprintf(p.w, format, args...)
	}
}

// Err returns the first error.
func (p *Printer) Err() error { return p.err }

// WriteValue prints a value for programs, see WriteData.
func WriteValue(w io.Writer, format string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return WriteData(w, format, raw)
}

// WriteData prints JSON for programs: as YAML if the format is yaml, else as indented JSON.
func WriteData(w io.Writer, format string, raw []byte) error {
	if format == "yaml" {
		text, err := yamljson.ToYAML(raw)
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

// Field is one line of a page about one thing: a name and a value.
type Field [2]string

// WriteFields prints the fields that have a value.
func WriteFields(w io.Writer, fields []Field) error {
	p := NewPrinter(w)
	for _, f := range fields {
		if name, value := f[0], f[1]; value != "" {
			p.Line("%s%s", Faint.Render(fmt.Sprintf("%-13s ", name)), value)
		}
	}
	return p.Err()
}

// State colours a state: green is good, yellow needs attention, red is a failure.
func State(state string) string {
	switch state {
	case "active", "succeeded", "running", "finished":
		return Green.Render(state)
	case "paused", "skipped", "cancelled", "accepted", "retrying", "aborted":
		return Yellow.Render(state)
	case "failed", "lost", "revoked", "expired":
		return Red.Render(state)
	}
	return state
}

// Truncate cuts text to at most the given number of characters and marks the cut.
func Truncate(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// Dash returns the text, or a dash for an empty cell of a table.
func Dash(s string) string { return cmp.Or(s, "-") }

// Pairs formats a map as key=value, in the order of the keys.
func Pairs(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
