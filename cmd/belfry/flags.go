package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// choice is a flag that takes one of a few words; many: it may be repeated.
type choice struct {
	words []string
	to    *[]string
	many  bool
}

func (c *choice) String() string {
	if c == nil || c.to == nil {
		return ""
	}
	return strings.Join(*c.to, ",")
}

// Type is what the help shows behind the flag.
func (c *choice) Type() string { return "word" }

func (c *choice) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		if !slices.Contains(c.words, word) {
			return fmt.Errorf("use %s", either(c.words))
		}
		if !c.many {
			*c.to = nil
		}
		*c.to = append(*c.to, word)
	}
	return nil
}

// either lists words as people do.
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// choiceFlag adds a flag that takes one of a few words. "%s" in help is the list of them.
func choiceFlag(f *pflag.FlagSet, name, help string, words ...string) *choice {
	c := &choice{words: words, to: new([]string)}
	f.Var(c, name, strings.ReplaceAll(help, "%s", either(words)))
	return c
}

// instant is a flag that takes a time. It is sent as RFC 3339.
type instant struct{ to *string }

func (i *instant) String() string {
	if i == nil || i.to == nil {
		return ""
	}
	return *i.to
}

// Type is what the help shows behind the flag.
func (i *instant) Type() string { return "time" }

func (i *instant) Set(text string) error {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			*i.to = t.UTC().Format(time.RFC3339Nano)
			return nil
		}
	}
	return fmt.Errorf("it is not a time; write 2026-01-31, 2026-01-31T09:00 (both in UTC) or 2026-01-31T09:00:00+01:00")
}

// timeLayouts are the forms of a time; without an offset it is one of a zone.
var timeLayouts = []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"}

// timeFlag adds a flag that takes a time.
func timeFlag(f *pflag.FlagSet, to *string, name, help string) {
	f.Var(&instant{to}, name, help+"; UTC unless it has an offset")
}
