package broker

import (
	"context"
	"errors"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// OwnError is one in our own words: nothing in it came from a broker.
type OwnError string

func (e OwnError) Error() string { return string(e) }

// secrets are those that one delivery has read, kept to be blotted out of what is
// said about it: a server, or what stands before it, may give as its reason what it
// was sent. Nil: none.
type secrets struct{ lines []string }

type secretsKey struct{}

// remembering is a context in which ReadSecret notes what it reads.
func remembering(ctx context.Context) context.Context {
	return context.WithValue(ctx, secretsKey{}, &secrets{})
}

func secretsOf(ctx context.Context) *secrets {
	s, _ := ctx.Value(secretsKey{}).(*secrets)
	return s
}

// note takes a secret line by line, as who repeats it may.
func note(ctx context.Context, text string) {
	if s := secretsOf(ctx); s != nil {
		for line := range strings.Lines(text) {
			s.lines = append(s.lines, strings.TrimSpace(line))
		}
	}
}

// Said is what a broker said, without the secrets that were read for the delivery. It
// is for that alone, and not for the sentence that it is put into: whoever knows how
// that goes would learn a secret which is a word of it.
func Said(ctx context.Context, text string) string { return secretsOf(ctx).blot(text) }

func (s *secrets) blot(text string) string {
	if s == nil {
		return text
	}
	return secret.Redact(text, secret.Forms(s.lines))
}

// reason is what an error says, which may be what a broker did.
func (s *secrets) reason(err error) string {
	if own := OwnError(""); errors.As(err, &own) {
		return string(own)
	}
	return s.blot(err.Error())
}
