package terminal

import (
	"io"
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"
)

const (
	columnGap = 2  // spaces between columns
	minCut    = 12 // a column is never cut to fewer characters
)

// optionalColumns are left out, in this order, if a table is too wide for the terminal.
var optionalColumns = []string{"QUEUE", "TARGET", "NEXT DUE UTC", "BEGINS", "BY", "NODE"}

// textColumns may be cut. IDs and times are not: half of one is useless.
var textColumns = []string{"NAME", "JOB", "SCHEDULE", "TARGET", "WHY", "MESSAGE", "NODE", "BY"}

// WriteTable prints a table. If the terminal is too narrow, it tries in order: cut long text, move
// runs to lines of their own, leave out columns (and say which), print each row as a block of
// lines. lipgloss omits colours if the output is not a terminal or NO_COLOR is set.
func WriteTable(w io.Writer, headers []string, rows [][]string) error {
	p := NewPrinter(w)
	for _, line := range layout(headers, rows, Width(w)) {
		p.Line("%s", line)
	}
	return p.Err()
}

// WriteWideTable prints a table with all its columns, however wide it is.
func WriteWideTable(w io.Writer, headers []string, rows [][]string) error {
	p := NewPrinter(w)
	for _, line := range layout(headers, rows, 0) {
		p.Line("%s", line)
	}
	return p.Err()
}

// Width returns how many characters fit on a line. 0 means no limit.
func Width(w io.Writer) int {
	if file, ok := w.(*os.File); ok && term.IsTerminal(file.Fd()) {
		if width, _, err := term.GetSize(file.Fd()); err == nil {
			return width
		}
	}
	return 0
}

// layout formats a table as lines of at most width characters. 0 means no limit.
func layout(headers []string, rows [][]string, width int) []string {
	if lines, ok := columns(headers, rows, width); ok {
		return lines
	}
	if run := slices.Index(headers, "RUN"); run >= 0 {
		if lines, ok := columns(without(headers, run), allWithout(rows, run), width); ok {
			out := lines[:1:1]
			for i, row := range rows {
				out = append(out, row[run], "  "+lines[i+1])
			}
			return out
		}
	}
	var left []string
	allHeaders, allRows := headers, rows
	for _, name := range optionalColumns {
		c := slices.Index(headers, name)
		if c < 0 {
			continue
		}
		left = append(left, name)
		headers, rows = without(headers, c), allWithout(rows, c)
		if lines, ok := columns(headers, rows, width); ok {
			note := "left out: " + strings.Join(left, ", ") + "; -o wide shows all"
			return append(lines, Faint.Render(note))
		}
	}
	return blocks(allHeaders, allRows)
}

// without returns cells without one of them.
func without(cells []string, c int) []string { return slices.Delete(slices.Clone(cells), c, c+1) }

// allWithout returns rows without one of their columns.
func allWithout(rows [][]string, c int) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = without(row, c)
	}
	return out
}

// columns formats a table with one line per row, and reports whether it fits.
func columns(headers []string, rows [][]string, width int) ([]string, bool) {
	widths := make([]int, len(headers))
	total := columnGap * (len(headers) - 1)
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
				b.WriteString(strings.Repeat(" ", widths[c]-lipgloss.Width(cell)+columnGap))
			}
		}
		return b.String()
	}
	lines := []string{Faint.Render(line(headers))}
	for _, row := range rows {
		lines = append(lines, line(row))
	}
	return lines, true
}

// cut narrows the widest text columns until it has saved the given number of characters. It returns
// false if that is impossible.
func cut(headers []string, widths []int, save int) bool {
	for ; save > 0; save-- {
		widest := -1
		for c, h := range headers {
			if slices.Contains(textColumns, h) && widths[c] > minCut && (widest < 0 || widths[c] > widths[widest]) {
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

// blocks formats each row as a block with one line per cell.
func blocks(headers []string, rows [][]string) []string {
	wide := 0
	for _, h := range headers {
		wide = max(wide, len(h)+columnGap)
	}
	var lines []string
	for i, row := range rows {
		if i > 0 {
			lines = append(lines, "")
		}
		for c, cell := range row {
			lines = append(lines, Faint.Render(headers[c]+strings.Repeat(" ", wide-len(headers[c])))+cell)
		}
	}
	return lines
}

// shorten cuts text that has no colours to a width.
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
