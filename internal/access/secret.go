package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// Secret is a value that users store for their targets. fmt, loggers and JSON print "[hidden]" instead.
type Secret struct {
	// Values are the newest value and, for a while after a change, the previous one, so that a receiver that knows
	// only one of them still accepts signatures.
	Values  []string
	Binding SecretBinding
}

// Value is the newest value.
func (s Secret) Value() string {
	if len(s.Values) == 0 {
		return ""
	}
	return s.Values[0]
}

const hidden = "[hidden]"

func (Secret) String() string { return hidden }

// GoString is for %#v.
func (Secret) GoString() string { return hidden }

// MarshalText is for JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// CheckSecretName returns the problem with the name of a secret. It does not repeat the name, because a user may have
// put the value in its place.
func CheckSecretName(name string) error {
	if job.ValidQueueName(name) {
		return nil
	}
	return &problem.Problem{Field: "name", Problem: "it is not a name for a secret", Fix: job.QueueNameFix}
}

// SigningPrefix begins secrets for signatures, as in Standard Webhooks. Base64 follows.
const SigningPrefix = "whsec_"

// The limits of secrets.
const (
	MaxSecret       = 64 << 10 // bytes: a certificate with its chain
	MaxSecrets      = 1000     // in a namespace
	MaxKeepPrevious = job.Duration(30 * 24 * time.Hour)
)

// SecretInfo is what may be shown about a secret.
type SecretInfo struct {
	Name          string
	Version       int32 // from 1; +1 with each new value
	CreatedAt     time.Time
	UpdatedAt     time.Time
	UpdatedBy     string
	PreviousUntil time.Time // until when the previous value is used too; zero if it is not
	Binding       SecretBinding
}

// SecretParams is a secret to store.
type SecretParams struct {
	Namespace    uuid.UUID
	Name         string
	Value        Secret
	KeepPrevious time.Duration // how long the previous value is used too
	// Change is of where the secret may be used. Only an admin may change that of a secret that exists.
	Change BindingChange
	Admin  bool // the actor is an admin of the namespace
	Actor  string
}

// Validate returns all problems at once. It does not repeat the value.
func (p SecretParams) Validate() error {
	var c problem.Checker
	if err := CheckSecretName(p.Name); err != nil {
		c = append(c, err)
	}
	if n := len(p.Value.Value()); n == 0 || n > MaxSecret {
		c.Add("value", fmt.Sprintf("%d bytes; 1 to %d are taken", n, MaxSecret), "send the value itself")
	}
	if strings.TrimSpace(p.Value.Value()) == SigningPrefix {
		c.Add("value", "there is nothing after whsec_, so that anybody could sign with it",
			"send the whole secret; was a variable empty?")
	}
	if p.KeepPrevious < 0 || p.KeepPrevious > time.Duration(MaxKeepPrevious) {
		c.Add("keep_previous_for", "it is not between 0s and 30d",
			"write how long receivers may take to know the new value, for example 24h")
	}
	return errors.Join(c.Err(), p.Change.Apply(SecretBinding{}).Validate())
}

// ErrNoKeyset says that secrets cannot be sealed or opened.
var ErrNoKeyset = errors.New("this node has no keyset for secrets; " +
	"its operator makes one with belfry secret keyset new, and names it in the setting secrets.keyset_file")

// SecretBound is the context that a value is sealed with: it opens in no other.
func SecretBound(namespace uuid.UUID, name string, version int32) []byte {
	return fmt.Appendf(nil, "belfry secret %s %s %d", namespace, name, version)
}
