package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/belfry-dev/belfry/internal/schedule"
)

type previewJSON struct {
	Schedule    schedule.Spec          `json:"schedule"`
	Occurrences []schedule.PreviewJSON `json:"occurrences"`
}

func writePreviewJSON(w io.Writer, format string, spec schedule.Spec, lines []schedule.Preview) error {
	out := previewJSON{Schedule: spec, Occurrences: []schedule.PreviewJSON{}}
	for _, l := range lines {
		out.Occurrences = append(out.Occurrences, l.JSON())
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return write(w, format, raw)
}

var (
	faint  = lipgloss.NewStyle().Faint(true)
	strong = lipgloss.NewStyle().Bold(true)
	yellow = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
)

// writePreviewTable prints for people. lipgloss leaves the colours out where
// the output is not a terminal.
func writePreviewTable(w io.Writer, s *schedule.Schedule, lines []schedule.Preview, notes []string) error {
	p := &printer{w: w}
	p.line("%s in %s", strong.Render(s.String()), s.Zone())
	p.line("")
	p.line("%s", faint.Render(fmt.Sprintf("%3s  %-28s  %s", "", "LOCAL", "UTC")))
	n := 0
	for _, r := range lines {
		switch {
		case r.More > 0:
			p.line("%3s  %s", "·", yellow.Render(moreText(r)))
		case r.Skip != "":
			p.line("%3s  %s  %s", "·", faint.Render(pad(skippedLocal(r.Occurrence))), yellow.Render(explain(r.Occurrence)))
		default:
			n++
			note := explain(r.Occurrence)
			if note != "" {
				note = "  " + yellow.Render(note)
			}
			p.line("%3d  %s  %s%s", n, pad(local(r.Due)), r.Due.UTC().Format("2006-01-02 15:04:05"), note)
		}
	}
	for _, note := range notes {
		p.line("%s", faint.Render("     "+note))
	}
	return p.err
}

func moreText(p schedule.Preview) string {
	if p.AtLeast {
		return fmt.Sprintf("… and more than %d more skipped", p.More)
	}
	return fmt.Sprintf("… and %d more skipped", p.More)
}

// printer keeps the first error, so that a listing reads as a list of lines.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = lipgloss.Fprintf(p.w, format+"\n", args...)
	}
}

func pad(s string) string { return fmt.Sprintf("%-28s", s) }

func local(t time.Time) string { return t.Format("Mon 2006-01-02 15:04:05 MST") }

// skippedLocal is what the clock would have read.
func skippedLocal(o schedule.Occurrence) string {
	if o.Nominal == "" {
		return local(o.Due)
	}
	t, err := time.Parse("2006-01-02T15:04:05", o.Nominal)
	if err != nil {
		return o.Nominal
	}
	return t.Format("Mon 2006-01-02 15:04:05")
}

// explain says in words what happened to an occurrence.
func explain(o schedule.Occurrence) string {
	switch {
	case o.Skip == schedule.ReasonGap:
		return "skipped (dst_gap): this time does not exist, " + clockChange(o.Due)
	case o.Skip == schedule.ReasonCalendar:
		return "skipped (calendar)"
	case o.Mark == schedule.MarkShifted:
		return "shifted: " + o.Nominal[len("2006-01-02T"):] + " does not exist, " + clockChange(o.Due)
	case o.Mark == schedule.MarkFirstPass:
		return "this time happens twice: first pass"
	case o.Mark == schedule.MarkSecondPass:
		return "this time happens twice: second pass"
	}
	return ""
}

// clockChange tells of the change of the clock at an instant.
func clockChange(at time.Time) string {
	_, before := at.Add(-time.Second).Zone()
	old := at.UTC().Add(time.Duration(before) * time.Second)
	layout := "15:04"
	if old.Day() != at.Day() {
		layout = "Jan 2 15:04"
	}
	return fmt.Sprintf("clocks go from %s to %s", old.Format(layout), at.Format(layout))
}
