package target

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// permitter is a kind of target whose settings say what a namespace may use.
type permitter interface {
	// Permit reports what the settings do not let a namespace use, for a config that Check has accepted. It may read
	// local files.
	Permit(namespace string, config json.RawMessage) error
}

// named is a kind of target that delivers to a broker.
type named interface {
	// Broker returns the name of the broker of a valid config.
	Broker(config json.RawMessage) string
}

// Bindings is the part of the store that knows what a namespace may use where.
type Bindings interface {
	// Brokers lists the brokers that a namespace may use.
	Brokers(ctx context.Context, namespace uuid.UUID) ([]access.BrokerInfo, error)
	// SecretBindings returns the bindings of these secrets, of those that have one.
	SecretBindings(ctx context.Context, namespace uuid.UUID, names []string) (map[string]access.SecretBinding, error)
}

// Checks checks the targets of jobs that are saved.
type Checks struct {
	Targets  map[string]Target
	Bindings Bindings
}

// New returns the check of one request. It reads the brokers and the binding of each secret at most once, and none
// after an error.
func (c Checks) New(ctx context.Context, p access.Principal) func(of job.Target) error {
	bindings := map[string]access.SecretBinding{}
	var failed error
	brokers := sync.OnceValues(func() ([]access.BrokerInfo, error) { return c.Bindings.Brokers(ctx, p.Namespace) })
	return func(of job.Target) error {
		t, ok := c.Targets[of.Kind]
		if !ok {
			return c.unknown(of.Kind)
		}
		if err := t.Check(of.Config); err != nil {
			return err
		}
		if limited, ok := t.(permitter); ok {
			if err := limited.Permit(p.NamespaceName, of.Config); err != nil {
				return err
			}
		}
		if kind, ok := t.(named); ok {
			if err := checkBroker(of.Kind, kind.Broker(of.Config), brokers); err != nil {
				return err
			}
		}
		uses := t.Uses(of.Config)
		var missing []string
		for _, name := range uses.All() {
			if _, known := bindings[name]; !known && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 && failed == nil {
			var found map[string]access.SecretBinding
			found, failed = c.Bindings.SecretBindings(ctx, p.Namespace, missing)
			for _, name := range missing {
				bindings[name] = found[name]
			}
		}
		if failed != nil {
			return failed
		}
		var problems []error
		check := func(names []string, use access.SecretUse) {
			for _, name := range names {
				if err := bindings[name].Check(name, use); err != nil {
					problems = append(problems, problem.New("target.config", err.Error(),
						"use another secret, or let an admin change where this one may be used: belfry secret bind "+name))
				}
			}
		}
		check(uses.Names, uses.SecretUse)
		check(uses.InURL, access.SecretUse{Kind: access.KindURL, Hosts: uses.Hosts})
		check(uses.InHeader, access.SecretUse{Kind: access.KindHeader, Hosts: uses.Hosts})
		return errors.Join(problems...)
	}
}

// checkBroker checks that a namespace may use the broker of a target, and that it is of its kind.
func checkBroker(kind, name string, brokers func() ([]access.BrokerInfo, error)) error {
	all, err := brokers()
	if err != nil {
		return err
	}
	const field = "target.config.broker"
	var others []string
	for _, b := range all {
		switch {
		case b.Name == name && b.Kind == kind:
			return nil
		case b.Name == name:
			return problem.New(field, "the broker "+name+" is of kind "+b.Kind, "set target.kind to "+b.Kind+", or name another broker")
		case b.Kind == kind:
			others = append(others, b.Name)
		}
	}
	fix := "let the operator of the cluster set one: belfry broker set"
	if len(others) > 0 {
		fix = "use one of " + strings.Join(others, ", ") + ", or " + fix
	}
	return problem.New(field, "there is no broker of that name that this namespace may use", fix)
}

// Clear reports whether a valid target would send a secret over a network without encryption.
func (c Checks) Clear(of job.Target) bool {
	t, ok := c.Targets[of.Kind]
	return ok && t.Uses(of.Config).Clear
}

// Secrets returns the names of the secrets that a valid target uses.
func (c Checks) Secrets(of job.Target) []string {
	t, ok := c.Targets[of.Kind]
	if !ok {
		return nil
	}
	uses := t.Uses(of.Config)
	return uses.All()
}

func (c Checks) unknown(kind string) error {
	others := "use one of " + strings.Join(slices.Sorted(maps.Keys(c.Targets)), ", ")
	if kind == "command" {
		return problem.New("target.kind", "commands are disabled on this server",
			"set command.enabled and command.programs (or command.images) on all nodes and restart them, or "+others)
	}
	return problem.New("target.kind", "there is no such kind of target", others)
}
