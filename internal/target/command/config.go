package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// The limits of a config; its size is limited by job.MaxConfig.
const (
	maxArgs       = 256
	maxEnv        = 64
	maxRetryCodes = 32
	maxPath       = 1024
)

// config is what a user writes, checked.
type config struct {
	program    string
	args       []string
	env        map[string]secret.Text
	stdin      *secret.Text
	network    bool
	retryCodes []int
	image      string
}

// Check says what is wrong with a config: see target.Target.
func (*Target) Check(raw json.RawMessage) error {
	_, err := parse(raw)
	return err
}

// reader collects problems. They never repeat what was written: an API answer
// or a log would carry a secret further.
type reader struct {
	problems []error
}

func (r *reader) add(field, problem, fix string) {
	if field != "" {
		field = "." + field
	}
	r.problems = append(r.problems, &job.Problem{Field: "target.config" + field, Problem: problem, Fix: fix})
}

// parse goes field by field, so that each problem has its field, and names count
// as they are written, with case.
func parse(raw []byte) (config, error) {
	var fields map[string]json.RawMessage
	r, c := &reader{}, config{}
	if len(raw) == 0 || json.Unmarshal(raw, &fields) != nil || fields == nil {
		r.add("", "it is not a JSON object", `write for example {"program": "/usr/local/bin/backup"}`)
		return c, errors.Join(r.problems...)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "program":
			r.text(name, value, &c.program)
		case "image":
			r.text(name, value, &c.image)
		case "args":
			r.args(&c, value)
		case "env":
			r.env(&c, value)
		case "stdin":
			c.stdin = new(secret.Text)
			if json.Unmarshal(value, c.stdin) != nil {
				r.add(name, "it is neither a text nor the name of a secret", `write a text, {"secret": "NAME"}, or leave it out: the payload`)
			}
		case "network":
			if json.Unmarshal(value, &c.network) != nil {
				r.add(name, "it is neither true nor false", "write true, or leave it out: no network")
			}
		case "retry_codes":
			r.codes(&c, value)
		default:
			r.add(clean(name, 60), "there is no such setting", "use program, image, args, env, stdin, network and retry_codes")
		}
	}
	r.program(&c)
	return c, errors.Join(r.problems...)
}

func (r *reader) text(name string, raw json.RawMessage, into *string) {
	if json.Unmarshal(raw, into) != nil || *into == "" || len(*into) > maxPath || strings.ContainsRune(*into, 0) {
		r.add(name, fmt.Sprintf("it is not a text of 1 to %d bytes", maxPath), "write it out, or leave it out")
		*into = ""
	}
}

var imageName = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._/:@-]*$`)

func (r *reader) program(c *config) {
	switch {
	case c.image != "":
		if !imageName.MatchString(c.image) {
			r.add("image", "it is not the name of an image", "write for example registry.example.com/backup:1.4")
		}
	case c.program == "":
		r.add("program", "it is missing", "say what to run, for example /usr/local/bin/backup, or an image")
	case !path.IsAbs(c.program) || path.Clean(c.program) != c.program:
		r.add("program", "it is not an absolute path in its shortest form", "write for example /usr/local/bin/backup; for a shell say /bin/sh, with args -c and the script")
	}
}

func (r *reader) args(c *config, raw json.RawMessage) {
	if json.Unmarshal(raw, &c.args) != nil || len(c.args) > maxArgs || slices.ContainsFunc(c.args, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		r.add("args", fmt.Sprintf("it is not a list of at most %d texts", maxArgs), `write for example ["--all", "{}"]`)
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

func (r *reader) env(c *config, raw json.RawMessage) {
	if json.Unmarshal(raw, &c.env) != nil || len(c.env) > maxEnv {
		r.add("env", fmt.Sprintf("it is not an object of at most %d texts or names of secrets", maxEnv), `write for example {"MODE": "full", "TOKEN": {"secret": "NAME"}}`)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		field := "env." + clean(name, 60)
		switch {
		case !envName.MatchString(name):
			r.add(field, "it is not the name of a variable", "use letters, digits and '_'")
		case strings.HasPrefix(name, "BELFRY_"), name == "TRACEPARENT":
			r.add(field, "Belfry sets it itself", "remove it")
		case strings.ContainsRune(c.env[name].Plain, 0):
			r.add(field, "its value has a byte 0", "remove it")
		}
	}
}

func (r *reader) codes(c *config, raw json.RawMessage) {
	if json.Unmarshal(raw, &c.retryCodes) != nil || len(c.retryCodes) > maxRetryCodes ||
		slices.ContainsFunc(c.retryCodes, func(n int) bool { return n < 1 || n > 255 }) {
		r.add("retry_codes", fmt.Sprintf("it is not a list of at most %d exit codes from 1 to 255", maxRetryCodes), "write for example [1, 3]")
	}
}

// given is what a command is given of its config, with secrets read.
type given struct {
	env     []string
	stdin   string
	secrets []string // all values that may come up in what it writes
}

func (c *config) read(ctx context.Context, from secret.Source, namespace uuid.UUID) (*given, error) {
	g := &given{}
	read := func(t secret.Text) (string, error) {
		if t.Secret == "" {
			return t.Plain, nil
		}
		if from == nil {
			return "", secret.ErrNone
		}
		s, err := from.Secret(ctx, namespace, t.Secret)
		if err == nil && strings.ContainsRune(s.Value(), 0) {
			err = errors.New("a secret has a byte 0, which no variable can hold")
		}
		g.secrets = append(g.secrets, s.Values...)
		return s.Value(), err
	}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		value, err := read(c.env[name])
		if err != nil {
			return nil, fmt.Errorf("env.%s: %w", name, err)
		}
		g.env = append(g.env, name+"="+value)
	}
	if c.stdin == nil {
		return g, nil
	}
	var err error
	if g.stdin, err = read(*c.stdin); err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	return g, nil
}
