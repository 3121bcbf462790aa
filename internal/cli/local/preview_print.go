package local

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/schedule"
)

type previewJSON struct {
	Schedule    schedule.Spec          `json:"schedule"`
	Words       string                 `json:"words"`
	Occurrences []schedule.PreviewLine `json:"occurrences"`
}

func writePreviewData(w io.Writer, format string, s *schedule.Schedule, lines []schedule.Preview) error {
	out := previewJSON{Schedule: s.Spec(), Words: s.Words(), Occurrences: []schedule.PreviewLine{}}
	for _, l := range lines {
		out.Occurrences = append(out.Occurrences, l.JSON())
	}
	return terminal.WriteValue(w, format, out)
}

// writePreviewTable prints a preview for people.
func writePreviewTable(w io.Writer, s *schedule.Schedule, typed schedule.Spec, lines []schedule.Preview, notes []string) error {
	p := terminal.NewPrinter(w)
	p.Line("%s in %s", previewTitle(s, typed), s.Zone())
	p.Line("%s", s.Words())
	p.Line("")
	if err := p.Err(); err != nil {
		return err
	}
	return WriteOccurrences(w, lines, notes)
}

// WriteOccurrences prints the lines of a preview, whose times are in the zone of the schedule.
func WriteOccurrences(w io.Writer, lines []schedule.Preview, notes []string) error {
	p := terminal.NewPrinter(w)
	p.Line("%s", terminal.Faint.Render(fmt.Sprintf("%3s  %-28s  %s", "", "LOCAL", "UTC")))
	n := 0
	for _, r := range lines {
		switch {
		case r.More > 0:
			p.Line("%3s  %s", "·", terminal.Yellow.Render(moreText(r)))
		case r.Skip != "":
			p.Line("%3s  %s  %s", "·", terminal.Faint.Render(pad(skippedLocal(r.Occurrence))),
				terminal.Yellow.Render(explain(r.Occurrence)))
		default:
			n++
			note := explain(r.Occurrence)
			if note != "" {
				note = "  " + terminal.Yellow.Render(note)
			}
			p.Line("%3d  %s  %s%s", n, pad(terminal.Local(r.Due)), r.Due.UTC().Format("2006-01-02 15:04:05"), note)
		}
	}
	for _, note := range notes {
		p.Line("%s", terminal.Faint.Render("     "+note))
	}
	return p.Err()
}

// previewTitle is the schedule as it was typed, and what H and macros stand for.
func previewTitle(s *schedule.Schedule, typed schedule.Spec) string {
	switch {
	case typed.Every != "":
		return terminal.Strong.Render("every " + terminal.Clean(typed.Every))
	case typed.Cron != "":
		title := "cron " + strings.Join(strings.Fields(terminal.Clean(typed.Cron)), " ")
		if !strings.EqualFold(title, s.String()) {
			return terminal.Strong.Render(title) + ", which is " + s.String()
		}
		return terminal.Strong.Render(title)
	}
	return terminal.Strong.Render(s.String())
}

func moreText(p schedule.Preview) string {
	if p.AtLeast {
		return fmt.Sprintf("… and more than %d more skipped", p.More)
	}
	return fmt.Sprintf("… and %d more skipped", p.More)
}

func pad(s string) string { return fmt.Sprintf("%-28s", s) }

// skippedLocal formats the local time that was skipped.
func skippedLocal(o schedule.Occurrence) string {
	if o.Nominal == "" {
		return terminal.Local(o.Due)
	}
	t, err := time.Parse("2006-01-02T15:04:05", o.Nominal)
	if err != nil {
		return o.Nominal
	}
	return t.Format("Mon 2006-01-02 15:04:05")
}

// explain says what happened to an occurrence, if it is not an ordinary one.
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

// clockChange describes the change of the clock at an instant.
func clockChange(at time.Time) string {
	_, before := at.Add(-time.Second).Zone()
	old := at.UTC().Add(time.Duration(before) * time.Second)
	layout := "15:04"
	if old.Day() != at.Day() {
		layout = "Jan 2 15:04"
	}
	return fmt.Sprintf("clocks go from %s to %s", old.Format(layout), at.Format(layout))
}
