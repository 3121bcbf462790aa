// Package settings reads the configs of targets.
//
// A [Reader] goes through a config field by field, because encoding/json reports only the first problem
// and ignores case. Every problem names its field and a fix, and none repeats a value, because the
// value may be a secret and problems end up in API responses and logs.
//
// A [Cache] keeps parsed configs, so that most deliveries parse nothing.
package settings

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/message"
)

// maxShown is how much of a name that a user wrote is shown, in bytes.
const maxShown = 60

// Reader collects the problems of a config.
type Reader struct {
	Fields   map[string]json.RawMessage // nil: the config is not an object
	problems []error
}

// Read splits a config into its fields. example is a valid config, shown if raw is not an object.
func Read(raw []byte, example string) *Reader {
	r := &Reader{}
	if len(raw) == 0 || json.Unmarshal(raw, &r.Fields) != nil || r.Fields == nil {
		r.Fields = nil
		r.Add("", "it is not a JSON object", "write for example "+example)
	}
	return r
}

// Add reports a problem of a field. An empty field is the config itself.
func (r *Reader) Add(field, text, fix string) {
	if field != "" {
		field = "." + field
	}
	r.problems = append(r.problems, &problem.Problem{
		Field: "target.config" + field, Problem: text, Fix: fix,
	})
}

// Err returns all problems, joined, or nil.
func (r *Reader) Err() error { return errors.Join(r.problems...) }

// PlainHost reports whether a host is written as it is dialed: in ASCII and without an IPv6 zone. Others are refused,
// because secrets are bound to hosts, and dialing would convert them to other names (IDNA).
func PlainHost(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' })
}

// ShowName makes a name that a user wrote short and printable.
func ShowName(name string) string { return message.Clean(name, maxShown) }
