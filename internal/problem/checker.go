package problem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Checker collects the problems of one input, so that a user can fix them together.
type Checker []error

// Err returns all problems as one error: see All. It is nil if there are none.
func (c Checker) Err() error { return errors.Join(c...) }

// Add adds a problem.
func (c *Checker) Add(field, problem, fix string) {
	*c = append(*c, New(field, problem, fix))
}

// Between checks that a value is within bounds, both included.
func Between[T cmp.Ordered](c *Checker, field string, v T, bounds [2]T) {
	if v < bounds[0] || v > bounds[1] {
		c.Add(field, fmt.Sprintf("%v is out of range", v), fmt.Sprintf("use %v to %v", bounds[0], bounds[1]))
	}
}

// AtLeastZero checks that a value is not negative. fix says what 0 means.
func AtLeastZero(c *Checker, field string, v int32, fix string) {
	if v < 0 {
		c.Add(field, fmt.Sprintf("%d is negative", v), "use 0 or more; "+fix)
	}
}

// OneOf checks that a value is one of a list.
func OneOf[T ~string](c *Checker, field string, v T, values ...T) {
	if slices.Contains(values, v) {
		return
	}
	names := make([]string, len(values))
	for i, x := range values {
		names[i] = string(x)
	}
	last := len(names) - 1
	c.Add(field, "unknown value "+Quote(string(v)), "use "+strings.Join(names[:last], ", ")+" or "+names[last])
}
