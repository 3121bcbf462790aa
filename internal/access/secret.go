package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Secret is a value that users have stored to be used by targets. Nothing prints
// it: not fmt, not a log, not JSON.
type Secret struct {
	// Values are the newest and, for a while after it was replaced, the one
	// before: a receiver that has only one of them still knows us.
	Values []string
}

// Value is the newest.
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

// CheckSecretName says what is wrong with the name of a secret. Names are not
// secret, but somebody may have put the value in their place: it is not repeated.
func CheckSecretName(name string) error {
	if job.ValidQueueName(name) {
		return nil
	}
	return &job.Problem{Field: "name", Problem: "it is not a name for a secret", Fix: "use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"}
}

// SigningPrefix is what secrets for signatures begin with, as Standard Webhooks
// writes them: what follows is base64.
const SigningPrefix = "whsec_"

// The limits of secrets.
const (
	MaxSecret       = 64 << 10 // bytes: a certificate with its chain
	MaxSecrets      = 1000     // in a namespace
	MaxKeepPrevious = job.Duration(30 * 24 * time.Hour)
)

// SecretInfo is all that is told about a secret.
type SecretInfo struct {
	Name          string
	Version       int32 // from 1; +1 with each new value
	CreatedAt     time.Time
	UpdatedAt     time.Time
	UpdatedBy     string
	PreviousUntil time.Time // so long the value before it is used too; zero: it is not
}

// SecretParams is a secret to be stored.
type SecretParams struct {
	Namespace    uuid.UUID
	Name         string
	Value        Secret
	KeepPrevious time.Duration // how long the value before it is used too
	Actor        string
}

// Validate returns every problem of an order at once. It does not repeat the value.
func (o SecretParams) Validate() error {
	var c job.Checker
	if err := CheckSecretName(o.Name); err != nil {
		c = append(c, err)
	}
	if n := len(o.Value.Value()); n == 0 || n > MaxSecret {
		c.Add("value", fmt.Sprintf("%d bytes; 1 to %d are taken", n, MaxSecret), "send the value itself")
	}
	if strings.TrimSpace(o.Value.Value()) == SigningPrefix {
		c.Add("value", "there is nothing after whsec_, so that anybody could sign with it", "send the whole secret; was a variable empty?")
	}
	if o.KeepPrevious < 0 || o.KeepPrevious > time.Duration(MaxKeepPrevious) {
		c.Add("keep_previous_for", "it is not between 0s and 30d", "write how long receivers may take to know the new value, for example 24h")
	}
	return errors.Join(c...)
}

// ErrNoKeyset says that secrets cannot be sealed or opened.
var ErrNoKeyset = errors.New("this node has no keyset for secrets; its operator makes one with belfry secret keyset new, and names it in the setting secrets.keyset_file")

// SecretBound is what a value is sealed for: it opens nowhere else.
func SecretBound(namespace uuid.UUID, name string, version int32) []byte {
	return fmt.Appendf(nil, "belfry secret %s %s %d", namespace, name, version)
}
