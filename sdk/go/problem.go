package belfry

import (
	"errors"
	"strings"
)

// Error returns the detail, or each problem with the request on its own line.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Detail != "" && len(p.Problems) == 0 { // with problems, the detail only refers to them
		b.WriteString(": " + p.Detail)
	}
	if p.Status >= 500 && p.RequestID != "" {
		b.WriteString(" (request " + p.RequestID + ")")
	}
	for _, f := range p.Problems {
		b.WriteString("\n  " + f.Field + ": " + f.Problem)
		if f.Fix != "" {
			b.WriteString("; " + f.Fix)
		}
	}
	return b.String()
}

// CodeOf returns the code of an error that came from the server, or "".
func CodeOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
