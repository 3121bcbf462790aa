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

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Limits of a config. job.MaxConfig limits its total size.
const (
	maxArgs       = 256
	maxEnv        = 64
	maxRetryCodes = 32
	maxPath       = 1024
)

// config is a valid config.
type config struct {
	program    string
	args       []string
	env        map[string]secret.Text
	stdin      *secret.Text
	network    bool
	retryCodes []int
	image      string
}

// Check reports what is wrong with a config: see target.Target.
func (*Target) Check(raw json.RawMessage) error {
	_, err := parse(raw)
	return err
}

// Permit reports what the settings of this node do not let jobs of a namespace run. The runner checks it again for each
// command, because settings change.
func (t *Target) Permit(namespace string, raw json.RawMessage) error {
	c, err := parse(raw)
	if err != nil {
		return err
	}
	var p problem.Checker
	refuse := func(field, setting string) {
		p.Add("target.config."+field,
			fmt.Sprintf("it is not among the %ss that jobs of the namespace %s may run", field, namespace),
			fmt.Sprintf("use another one, or have the operator add it to the setting %s of all nodes and restart them; an entry "+
				"that begins with %s= is for this namespace only", setting, namespace))
	}
	switch {
	case c.image != "" && t.opts.Socket == "":
		p.Add("target.config.image", "nodes run no containers",
			"name a program, or have the operator set command.container_socket on all nodes and restart them")
	case c.image != "" && !t.opts.ListsImage(c.image, namespace):
		refuse("image", "command.images")
	case c.image == "" && !t.opts.ListsProgram(c.program, namespace):
		refuse("program", "command.programs")
	}
	if c.network && !t.opts.Network {
		p.Add("target.config.network", "nodes allow commands no network",
			"leave it out, or have the operator set command.network on all nodes and restart them")
	}
	return p.Err()
}

// use has no host: a command may send a secret anywhere.
var use = access.SecretUse{Kind: "command"}

// Uses returns the secrets of a config: see target.Target.
func (*Target) Uses(raw json.RawMessage) secret.Uses {
	out := secret.Uses{SecretUse: use}
	c, err := parse(raw)
	if err != nil {
		return out
	}
	out.Add(slices.Collect(maps.Values(c.env))...)
	if c.stdin != nil {
		out.Add(*c.stdin)
	}
	return out
}

// reader reads the settings of this target.
type reader struct{ *settings.Reader }

func parse(raw []byte) (config, error) {
	r, c := &reader{settings.Read(raw, `{"program": "/usr/local/bin/backup"}`)}, config{}
	if r.Fields == nil {
		return c, r.Err()
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		value := r.Fields[name]
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
				r.Add(name, "it is neither a string nor the name of a secret",
					`write a string, {"secret": "NAME"}, or leave it out: the payload`)
			}
		case "network":
			if json.Unmarshal(value, &c.network) != nil {
				r.Add(name, "it is neither true nor false", "write true, or leave it out: no network")
			}
		case "retry_codes":
			r.codes(&c, value)
		default:
			r.Add(settings.ShowName(name), "there is no such setting",
				"use program, image, args, env, stdin, network and retry_codes")
		}
	}
	r.program(&c)
	r.variables(&c)
	return c, r.Err()
}

func (r *reader) text(name string, raw json.RawMessage, into *string) {
	if json.Unmarshal(raw, into) != nil || *into == "" || len(*into) > maxPath || strings.ContainsRune(*into, 0) {
		r.Add(name, fmt.Sprintf("it is not a string of 1 to %d bytes", maxPath), "write it out, or leave it out")
		*into = ""
	}
}

var imageName = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._/:@-]*$`)

func (r *reader) program(c *config) {
	switch {
	case c.image != "":
		if !imageName.MatchString(c.image) {
			r.Add("image", "it is not the name of an image", "write for example registry.example.com/backup:1.4")
		}
	case c.program == "":
		r.Add("program", "it is missing", "say what to run, for example /usr/local/bin/backup, or an image")
	case !path.IsAbs(c.program) || path.Clean(c.program) != c.program:
		r.Add("program", "it is not an absolute path in its shortest form",
			"write for example /usr/local/bin/backup; for a shell say /bin/sh, with args -c and the script")
	}
}

func (r *reader) args(c *config, raw json.RawMessage) {
	hasZero := func(s string) bool { return strings.ContainsRune(s, 0) }
	if json.Unmarshal(raw, &c.args) != nil || len(c.args) > maxArgs || slices.ContainsFunc(c.args, hasZero) {
		r.Add("args", fmt.Sprintf("it is not a list of at most %d strings", maxArgs),
			`write for example ["--all", "{}"]`)
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

func (r *reader) env(c *config, raw json.RawMessage) {
	if json.Unmarshal(raw, &c.env) != nil || len(c.env) > maxEnv {
		r.Add("env", fmt.Sprintf("it is not an object of at most %d strings or names of secrets", maxEnv),
			`write for example {"MODE": "full", "TOKEN": {"secret": "NAME"}}`)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		field := "env." + settings.ShowName(name)
		switch {
		case !envName.MatchString(name):
			r.Add(field, "it is not the name of a variable", "use letters, digits and '_'")
		case strings.HasPrefix(name, "BELFRY_"), name == "TRACEPARENT":
			r.Add(field, "Belfry sets it itself", "remove it")
		case strings.ContainsRune(c.env[name].Plain, 0):
			r.Add(field, "its value has a byte 0", "remove it")
		}
	}
}

func (r *reader) codes(c *config, raw json.RawMessage) {
	if json.Unmarshal(raw, &c.retryCodes) != nil || len(c.retryCodes) > maxRetryCodes ||
		slices.ContainsFunc(c.retryCodes, func(n int) bool { return n < 1 || n > 255 }) {
		r.Add("retry_codes", fmt.Sprintf("it is not a list of at most %d exit codes from 1 to 255", maxRetryCodes),
			"write for example [1, 3]")
	}
}

// input is the environment and stdin of a command, with the values of secrets.
type input struct {
	env     []string
	stdin   string
	secrets []string // values to redact from its output
}

// readSecrets replaces the names of secrets with their values.
func (c *config) readSecrets(ctx context.Context, from secret.Source, namespace uuid.UUID) (*input, error) {
	in := &input{}
	read := func(t secret.Text) (string, error) {
		if t.Secret == "" {
			return t.Plain, nil
		}
		if from == nil {
			return "", secret.ErrNone
		}
		s, err := from.Secret(ctx, namespace, t.Secret, use)
		if err != nil && !secret.Permanent(err) && !errors.Is(err, access.ErrNoKeyset) {
			return "", errors.New("a secret could not be read just now; see the node's log")
		}
		if err == nil && strings.ContainsRune(s.Value(), 0) {
			err = errors.New("a secret has a byte 0, which no variable can contain")
		}
		in.secrets = append(in.secrets, s.Values...)
		return s.Value(), err
	}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		value, err := read(c.env[name])
		if err != nil {
			return nil, fmt.Errorf("env.%s: %w", name, err)
		}
		in.env = append(in.env, name+"="+value)
	}
	if c.stdin == nil {
		return in, nil
	}
	var err error
	if in.stdin, err = read(*c.stdin); err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	return in, nil
}
