// Package secret is how targets come by what users have stored: configs name it,
// deliveries read it.
package secret

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
)

// Source gives the secrets of a namespace by name. It keeps them for a moment, so
// that it may be asked for each delivery.
type Source interface {
	Secret(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error)
}

// ErrNone says that there is no secret of that name.
var ErrNone = errors.New("there is no secret of that name; store it: belfry secret set NAME")

// Text is a setting that is written as a text, or as {"secret": "NAME"} for what
// is stored under that name.
type Text struct {
	Plain  string
	Secret string // the name; empty: it is plain
}

// UnmarshalJSON takes both forms. Its error does not repeat what was written.
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

// Read gives the text: the newest value if it is stored.
func (t Text) Read(ctx context.Context, from Source, namespace uuid.UUID) (string, error) {
	if t.Secret == "" {
		return t.Plain, nil
	}
	if from == nil {
		return "", ErrNone
	}
	s, err := from.Secret(ctx, namespace, t.Secret)
	return s.Value(), err
}
