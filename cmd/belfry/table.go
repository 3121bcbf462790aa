package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"
)

const (
	gap       = 2  // between columns
	narrowest = 12 // a column that is cut has at least so much
)

// spare are columns that are left out first where there is no room.
var spare = []string{"QUEUE", "TARGET", "NEXT DUE UTC", "BEGINS", "BY", "NODE"}

// writeTable prints columns. Where a terminal is too narrow, long texts are cut, then
// ids of runs get lines of their own, then columns are left out, and said so; at last
// each row becomes a block of lines. lipgloss leaves the colours out where the output
// is not a terminal, and with NO_COLOR.
func writeTable(w io.Writer, headers []string, rows [][]string) error {
	p := printer{w: w}
	for _, line := range layout(headers, rows, widthOf(w)) {
		p.line("%s", line)
	}
	return p.err
}

// widthOf is how many characters fit on a line; 0: any number.
func widthOf(w io.Writer) int {
	if file, ok := w.(*os.File); ok && term.IsTerminal(file.Fd()) {
		if width, _, err := term.GetSize(file.Fd()); err == nil {
			return width
		}
	}
	return 0
}

// layout puts a table into lines of at most so many characters; 0: of any number.
func layout(headers []string, rows [][]string, width int) []string {
	if lines, ok := columns(headers, rows, width); ok {
		return lines
	}
	last := len(headers) - 1
	if headers[last] == "RUN" {
		if lines, ok := columns(headers[:last], rows, width); ok {
			out := lines[:1:1]
			for i, row := range rows {
				out = append(out, lines[i+1], faint.Render("  "+row[last]))
			}
			return out
		}
	}
	var left []string
	allHeaders, allRows := headers, rows
	for _, name := range spare {
		c := slices.Index(headers, name)
		if c < 0 {
			continue
		}
		left = append(left, name)
		headers = slices.Delete(slices.Clone(headers), c, c+1)
		fewer := make([][]string, len(rows))
		for i, row := range rows {
			fewer[i] = slices.Delete(slices.Clone(row), c, c+1)
		}
		rows = fewer
		if lines, ok := columns(headers, rows, width); ok {
			return append(lines, faint.Render("left out: "+strings.Join(left, ", ")+"; a wider terminal and -o yaml show all"))
		}
	}
	return blocks(allHeaders, allRows)
}

// columns puts a table into lines, if they can be made to fit.
func columns(headers []string, rows [][]string, width int) ([]string, bool) {
	widths := make([]int, len(headers))
	total := gap * (len(headers) - 1)
	for c, h := range headers {
		widths[c] = lipgloss.Width(h)
		for _, row := range rows {
			widths[c] = max(widths[c], lipgloss.Width(row[c]))
		}
		total += widths[c]
	}
	if width > 0 && total > width && !cut(headers, widths, total-width) {
		return nil, false
	}
	line := func(cells []string) string {
		var b strings.Builder
		for c := range headers {
			cell := cells[c]
			if lipgloss.Width(cell) > widths[c] {
				cell = shorten(cell, widths[c])
			}
			b.WriteString(cell)
			if c < len(headers)-1 {
				b.WriteString(strings.Repeat(" ", widths[c]-lipgloss.Width(cell)+gap))
			}
		}
		return b.String()
	}
	lines := []string{faint.Render(line(headers))}
	for _, row := range rows {
		lines = append(lines, line(row))
	}
	return lines, true
}

// cut takes from the widest columns of texts until so many characters are saved.
// Ids and times are not cut: half of one is of no use.
func cut(headers []string, widths []int, save int) bool {
	for ; save > 0; save-- {
		widest := -1
		for c, h := range headers {
			texts := slices.Contains([]string{"NAME", "JOB", "SCHEDULE", "TARGET", "WHY", "MESSAGE", "NODE", "BY"}, h)
			if texts && widths[c] > narrowest && (widest < 0 || widths[c] > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// blocks has a line for each cell.
func blocks(headers []string, rows [][]string) []string {
	wide := 0
	for _, h := range headers {
		wide = max(wide, len(h)+gap)
	}
	var lines []string
	for i, row := range rows {
		if i > 0 {
			lines = append(lines, "")
		}
		for c, cell := range row {
			lines = append(lines, faint.Render(headers[c]+strings.Repeat(" ", wide-len(headers[c])))+cell)
		}
	}
	return lines
}

// shorten cuts a text without colours to a width.
func shorten(s string, width int) string {
	var b strings.Builder
	used := 0
	for _, r := range s {
		if used += lipgloss.Width(string(r)); used > width-1 {
			return b.String() + "…"
		}
		b.WriteRune(r)
	}
	return s
}
