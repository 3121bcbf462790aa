package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Choice is a flag that takes one of a few words.
type Choice struct {
	Words  []string // the words that it takes
	Repeat bool     // the flag may be repeated
	values []string
}

// NewChoice adds a Choice flag. "%s" in help stands for the list of words.
func NewChoice(f *pflag.FlagSet, name, help string, words ...string) *Choice {
	c := &Choice{Words: words}
	f.Var(c, name, strings.ReplaceAll(help, "%s", Either(words)))
	return c
}

// Values returns the words that were given.
func (c *Choice) Values() []string { return c.values }

// String joins the words that were given with commas.
func (c *Choice) String() string {
	if c == nil {
		return ""
	}
	return strings.Join(c.values, ",")
}

// Type is the placeholder for the value in the help.
func (c *Choice) Type() string { return "word" }

// Set adds the words of one flag.
func (c *Choice) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		if !slices.Contains(c.Words, word) {
			return fmt.Errorf("use %s", Either(c.Words))
		}
		if !c.Repeat {
			c.values = nil
		}
		c.values = append(c.values, word)
	}
	return nil
}

// Either lists words with "or" before the last.
func Either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// instant is a flag that takes a time and holds it as RFC 3339.
type instant struct{ to *string }

func (i *instant) String() string {
	if i == nil || i.to == nil {
		return ""
	}
	return *i.to
}

// Type is the placeholder for the value in the help.
func (i *instant) Type() string { return "time" }

func (i *instant) Set(text string) error {
	for _, layout := range TimeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			*i.to = t.UTC().Format(time.RFC3339Nano)
			return nil
		}
	}
	return errors.New("it is not a time; write 2026-01-31, 2026-01-31T09:00 (both in UTC) or 2026-01-31T09:00:00+01:00")
}

// TimeLayouts are the accepted forms of a time. A time without an offset needs a zone.
var TimeLayouts = []string{
	time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04",
}

// TimeFlag adds a flag that takes a time and stores it as RFC 3339, in UTC.
func TimeFlag(f *pflag.FlagSet, to *string, name, help string) {
	f.Var(&instant{to}, name, help+"; UTC unless it has an offset")
}

// Table is the output format for people. The others are json and yaml.
const Table = "table"

// outputs are the values of -o.
var outputs = []string{Table, "json", "yaml"}

// OutputFlag adds the flag -o.
func OutputFlag(f *pflag.FlagSet) *string {
	return f.StringP("output", "o", Table, "table, json or yaml")
}

// CheckOutput checks a value of -o.
func CheckOutput(format string) error {
	if !slices.Contains(outputs, format) {
		return Errorf("-o %s: use %s", format, Either(outputs))
	}
	return nil
}
