package access

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// SecretBinding says where a secret may be used. A list that is empty restricts nothing.
type SecretBinding struct {
	// Hosts are the hosts that may receive it, such as hooks.example.com, or *.example.com for all names below
	// example.com. A target without a host, such as a command, is not among them.
	Hosts []string
	// Kinds are the kinds of targets that may use it. A secret with hosts or kinds is part of a URL only if they include
	// KindURL, and a header of a message only if they include KindHeader.
	Kinds []string
}

// SecretUse is the target that uses a secret.
type SecretUse struct {
	Kind  string
	Hosts []string // that it connects to; none: a command
}

// KindURL is an http target that uses the secret in its URL. The editor of a job chooses the rest of the URL, and so who
// receives the secret, on a host that many share.
const KindURL = "http_url"

// KindHeader is the target of a broker that uses the secret in a header of its messages. The editor of a job chooses
// the topic, and so who reads the message.
const KindHeader = "message_header"

// SecretKinds are the kinds of targets that use secrets.
var SecretKinds = []string{"http", KindURL, KindHeader, "command"}

const maxSecretHosts = 100

// hostForm is a name, a wildcard, or an address.
var hostForm = regexp.MustCompile(`^((\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?|[0-9a-f]*:[0-9a-f:.]{1,45})$`)

// Validate returns all problems at once.
func (b SecretBinding) Validate() error {
	var c problem.Checker
	if len(b.Hosts) > maxSecretHosts {
		c.Add("hosts", fmt.Sprintf("%d hosts; at most %d are allowed", len(b.Hosts), maxSecretHosts),
			"use a wildcard, for example *.example.com")
	}
	for i, host := range b.Hosts {
		if !hostForm.MatchString(host) {
			c.Add(fmt.Sprintf("hosts.%d", i), "it is not a host",
				"write for example hooks.example.com or *.example.com, in lower case, with other letters than ASCII as xn--, "+
					"and without a scheme, port and zone")
		}
	}
	for i, kind := range b.Kinds {
		problem.OneOf(&c, fmt.Sprintf("kinds.%d", i), kind, SecretKinds...)
	}
	return c.Err()
}

// normal returns the binding with each entry once, in order.
func (b SecretBinding) normal() SecretBinding {
	sorted := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return SecretBinding{sorted(b.Hosts), sorted(b.Kinds)}
}

// Bound reports whether the binding restricts anything.
func (b SecretBinding) Bound() bool { return len(b.Hosts)+len(b.Kinds) > 0 }

// Equal reports whether two bindings are the same.
func (b SecretBinding) Equal(other SecretBinding) bool {
	x, y := b.normal(), other.normal()
	return slices.Equal(x.Hosts, y.Hosts) && slices.Equal(x.Kinds, y.Kinds)
}

// NotAllowedError says that a secret may not be used where a target uses it.
type NotAllowedError struct{ text string }

func (e *NotAllowedError) Error() string { return e.text }

// Check returns a *NotAllowedError if the secret of that name may not be used there. All hosts must be allowed.
func (b SecretBinding) Check(name string, use SecretUse) error {
	if use.Kind == KindURL && b.Bound() && !slices.Contains(b.Kinds, KindURL) {
		return &NotAllowedError{"the secret " + name + " may only be part of a URL if its kinds include " + KindURL}
	}
	if use.Kind == KindHeader && b.Bound() && !slices.Contains(b.Kinds, KindHeader) {
		return &NotAllowedError{
			"the secret " + name + " may only be in a header of a message if its kinds include " + KindHeader,
		}
	}
	if len(b.Kinds) > 0 && !slices.Contains(b.Kinds, use.Kind) {
		return &NotAllowedError{fmt.Sprintf("the secret %s may only be used for targets of kind %s, not %s",
			name, firstOf(b.Kinds), use.Kind)}
	}
	if len(b.Hosts) == 0 {
		return nil
	}
	where := ""
	for _, host := range use.Hosts {
		if !slices.ContainsFunc(b.Hosts, func(allowed string) bool { return hostMatches(allowed, host) }) {
			where = host
		}
	}
	switch {
	case len(use.Hosts) == 0:
		where = "a " + use.Kind
	case where == "":
		return nil
	}
	return &NotAllowedError{fmt.Sprintf("the secret %s may only be sent to %s, not to %s",
		name, firstOf(b.Hosts), problem.Printable(where))}
}

// maxShownEntries is how many entries of a binding a message has.
const maxShownEntries = 3

func firstOf(list []string) string {
	if more := len(list) - maxShownEntries; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxShownEntries], ", "), more)
	}
	return strings.Join(list, ", ")
}

// hostMatches compares hosts without case and the dot at the end of a name. Addresses must be written the same way. Only
// the case of A to Z is ignored: strings.ToLower turns other letters into ASCII, and resolvers take them for other names.
func hostMatches(allowed, host string) bool {
	host = strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, strings.TrimSuffix(host, "."))
	if below, wildcard := strings.CutPrefix(allowed, "*"); wildcard {
		return !strings.Contains(host, ":") && len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return allowed == host
}

// BindingChange is a change of where a secret may be used. A list that is nil stays as it is.
type BindingChange struct{ Hosts, Kinds *[]string }

// Apply returns the binding after the change.
func (c BindingChange) Apply(b SecretBinding) SecretBinding {
	if c.Hosts != nil {
		b.Hosts = *c.Hosts
	}
	if c.Kinds != nil {
		b.Kinds = *c.Kinds
	}
	return b.normal()
}

// BindParams names a secret, and where it may be used from now on.
type BindParams struct {
	Namespace uuid.UUID
	Name      string
	Change    BindingChange
	Actor     string
}

// DeleteSecretParams names a secret to delete.
type DeleteSecretParams struct {
	Namespace uuid.UUID
	Name      string
	Admin     bool // the actor is an admin of the namespace
	Actor     string
}

// ErrNotAdmin says that only an admin may do something about a bound secret.
var ErrNotAdmin = errors.New("only an admin may change hosts and kinds of a secret, or delete a secret that has them")
