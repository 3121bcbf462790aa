// Package timeline shows what jobs did and will do.
package timeline

import (
	"cmp"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
)

// Run is a run or a skip, as far as it has a mark.
type Run struct {
	State string `json:"state"`
}

// Marks is one mark for each run, the newest at the right. An ellipsis says that there may be older ones.
func Marks(runs []Run, partial bool) string {
	marks := ""
	if partial {
		marks = "…"
	}
	for _, r := range runs {
		switch r.State {
		case "succeeded":
			marks += "+"
		case "failed":
			marks += terminal.Red.Render("x")
		case "skipped":
			marks += "-"
		case "cancelled":
			marks += "/"
		case "running", "accepted":
			marks += ">"
		default:
			marks += "."
		}
	}
	return cmp.Or(marks, "-")
}
