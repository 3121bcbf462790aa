package belfry

import (
	"errors"
	"strings"
)

// Error is the detail, and each thing that is wrong with the request, on a line of
// its own.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
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
