// Package problem describes what is wrong with a user's input: where, what, and how to fix it.
package problem

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one error in a user's input.
type Problem struct { //nolint:errname // users read "problems" in the API, the CLI and the docs
	Field   string // JSON path, e.g. "retry.max_attempts"
	Problem string
	Fix     string
}

// New returns a problem.
func New(field, problem, fix string) *Problem {
	return &Problem{Field: field, Problem: problem, Fix: fix}
}

func (p *Problem) Error() string {
	if p.Fix == "" {
		return p.Field + ": " + p.Problem
	}
	return p.Field + ": " + p.Problem + "; " + p.Fix
}

// All returns the individual problems in the error of a Validate method.
func All(err error) []*Problem {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var out []*Problem
		for _, e := range joined.Unwrap() {
			out = append(out, All(e)...)
		}
		return out
	}
	var p *Problem
	if errors.As(err, &p) {
		return []*Problem{p}
	}
	return nil
}

// Quote shows user input in a message, with bounded length and escaped control characters.
func Quote(s string) string {
	const most = 60
	n := 0
	for i := range s {
		if n == most {
			return fmt.Sprintf("%q", s[:i]+"…")
		}
		n++
	}
	return fmt.Sprintf("%q", s)
}

// Count is a number of things, such as "1 node" and "2 nodes".
func Count[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Printable makes text of a user fit to be shown: short and without control characters.
func Printable(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, s)
}
