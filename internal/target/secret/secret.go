// Package secret gives targets access to the secrets that users have stored, and keeps them out of
// messages.
//
// A config names a secret ([Text]), and each delivery reads its current value from a [Source]. What a
// receiver or a broker responds may repeat a secret, so targets pass it through [Redact] before they put
// it into an outcome.
package secret

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
)

// Source returns the secrets of a namespace by name. It caches them for a short time, so it can be
// called for each delivery.
type Source interface {
	// Secret returns an *access.NotAllowedError if the secret is bound to other hosts or kinds of targets.
	Secret(ctx context.Context, namespace uuid.UUID, name string, use access.SecretUse) (access.Secret, error)
}

// ErrNone says that the namespace has no secret of that name.
var ErrNone = errors.New("there is no secret of that name; store it: belfry secret set NAME")

// Permanent reports whether an error of a Source stays until the job or the secret is changed.
func Permanent(err error) bool {
	_, refused := errors.AsType[*access.NotAllowedError](err)
	return refused || errors.Is(err, ErrNone)
}

// Text is a setting that is written as a string, or as {"secret": "NAME"} for the secret of that name.
type Text struct {
	Plain  string
	Secret string // the name of the secret; empty: Plain is the text
}

// UnmarshalJSON accepts both forms. Its error does not repeat the value, which may be a secret.
func (t *Text) UnmarshalJSON(raw []byte) error {
	*t = Text{}
	if json.Unmarshal(raw, &t.Plain) == nil {
		return nil
	}
	var ref map[string]string
	if json.Unmarshal(raw, &ref) != nil || len(ref) != 1 || access.CheckSecretName(ref["secret"]) != nil {
		return errors.New(`it is neither a text nor {"secret": "NAME"}`)
	}
	t.Secret = ref["secret"]
	return nil
}

// Read returns the text, or the newest value of the secret that it names.
func (t Text) Read(ctx context.Context, from Source, namespace uuid.UUID, use access.SecretUse) (string, error) {
	if t.Secret == "" {
		return t.Plain, nil
	}
	if from == nil {
		return "", ErrNone
	}
	s, err := from.Secret(ctx, namespace, t.Secret, use)
	return s.Value(), err
}

// Uses are the secrets that a config names, and where.
type Uses struct {
	access.SecretUse
	Names []string
	InURL []string // names of the secrets in the URL, which are read for the kind access.KindURL
	// InHeader are names of the secrets in headers of messages, which are read for the kind access.KindHeader.
	InHeader []string
	// Clear says that the value of one of them would be sent over a network without encryption.
	Clear bool
}

// Remote reports whether one of the hosts is not this machine.
func Remote(hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host != "localhost" && (err != nil || !ip.IsLoopback())
	})
}

// Add adds the secrets that settings name, each once.
func (u *Uses) Add(settings ...Text) { u.Names = add(u.Names, settings) }

// AddHeader adds the secret that a header of messages names.
func (u *Uses) AddHeader(value Text) { u.InHeader = add(u.InHeader, []Text{value}) }

func add(names []string, settings []Text) []string {
	for _, t := range settings {
		if t.Secret != "" && !slices.Contains(names, t.Secret) {
			names = append(names, t.Secret)
		}
	}
	return names
}

// All returns the names of all secrets. One that is used in several ways may be there more than once.
func (u *Uses) All() []string { return slices.Concat(u.Names, u.InURL, u.InHeader) }
