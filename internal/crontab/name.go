package crontab

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	notInName = regexp.MustCompile(`[^a-z0-9]+`)
	// template matches comments that explain the fields, as distributions write them above the first entry.
	template = regexp.MustCompile(`^(m +h +dom\b|[|.*])`)
	// separator splits a command line into commands.
	separator = regexp.MustCompile(`&&|\|\||[;|]`)
)

// setup lists commands that only prepare for the one that an entry is about.
var setup = []string{"cd", "sleep", "test", "[", "[[", "export", "set", "source", ".", "true", "umask"}

// wrapper is a program that runs another one: how many arguments come before that, and which flags take a value.
type wrapper struct {
	args   int
	valued string
}

var wrappers = map[string]wrapper{
	"env": {0, "-u"}, "sudo": {0, "-u -g"}, "nice": {0, "-n"}, "ionice": {0, "-c -n"}, "flock": {1, "-w"},
	"timeout": {1, "-s -k"}, "chronic": {}, "exec": {}, "nohup": {}, "setsid": {}, "time": {},
	"sh": {}, "bash": {}, "php": {}, "perl": {}, "python": {}, "python3": {}, "ruby": {}, "node": {},
}

// name is made from the comment, else from the program that the command is about.
func (e *Entry) name() string {
	const most = 60
	text := e.Comment
	for _, command := range separator.Split(e.Command, -1) {
		text = cmp.Or(text, program(strings.Fields(command)))
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > most {
		name = strings.TrimRight(name[:most], "-")
	}
	return cmp.Or(name, "job")
}

// program returns what a command calls, without its directory and extension; empty if it only prepares for another one.
func program(words []string) (name string) {
	var last wrapper // that was called
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], `"'(){}`)
		base := path.Base(word)
		next, wraps := wrappers[base]
		switch {
		case word == "" || strings.Contains(word, "="): // a variable
		case strings.HasPrefix(word, "-"):
			if slices.Contains(strings.Fields(last.valued), word) {
				i++
			}
		case last.args > 0:
			last.args--
		case wraps:
			name, last = base, next
		case slices.Contains(setup, word):
			return ""
		default:
			return strings.TrimSuffix(base, path.Ext(base))
		}
	}
	return name
}
