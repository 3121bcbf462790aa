package crontab

import (
	"errors"
	"fmt"
	"maps"
)

// Limits bound what is made of a crontab: each entry has all variables above it, so a small crontab can become large
// jobs. Zero means no limit.
type Limits struct {
	Entries int
	Payload int // bytes of the payload of one entry
	Bytes   int // of everything that is made of the lines
}

// perLine is about what an entry, a refusal or a note takes besides its strings. perVariable is the same for a variable.
const (
	perLine     = 200
	perVariable = 8
)

// ErrTooLarge says that a crontab exceeds its limits.
var ErrTooLarge = errors.New("the crontab is too large")

// checkSize is called after each line, so that a crontab over its limits is not read to its end.
func (p *parser) checkSize(line int) error {
	if most := p.limits.Entries; most > 0 && len(p.out.Entries) > most {
		return fmt.Errorf("%w: line %d: it has more than %d jobs; send the lines in parts", ErrTooLarge, line, most)
	}
	return p.limits.CheckBytes(line, p.outBytes)
}

// CheckBytes returns an error if what was made of the lines up to one is too large.
func (l Limits) CheckBytes(line, bytes int) error {
	if l.Bytes > 0 && bytes > l.Bytes {
		return fmt.Errorf("%w: line %d: the jobs up to this line have more than %d bytes, because each has all variables"+
			" above it; send the lines in parts, or set fewer variables", ErrTooLarge, line, l.Bytes)
	}
	return nil
}

// CheckPayload returns an error if a payload is too large for a job.
func (l Limits) CheckPayload(bytes int) error {
	if l.Payload > 0 && bytes > l.Payload {
		return fmt.Errorf("its payload would have %d bytes; at most %d are taken: set fewer variables above the line",
			bytes, l.Payload)
	}
	return nil
}

// set sets a variable for the lines below. Entries share their variables until one is set.
func (p *parser) set(name, value string) {
	if p.envUsed {
		p.env, p.envUsed = maps.Clone(p.env), false
	}
	if old, again := p.env[name]; again {
		p.envBytes -= len(name) + len(old) + perVariable
	}
	p.env[name] = value
	p.envBytes += len(name) + len(value) + perVariable
}
