package broker

import (
	"context"
	"errors"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// OwnError is an error in Belfry's own words. It contains nothing from a broker, so it is not redacted.
type OwnError string

func (e OwnError) Error() string { return string(e) }

// secrets are the secrets that one delivery has read. They are redacted from what is reported about it,
// because a server, or a proxy in front of it, may repeat what it received. Nil: none.
type secrets struct{ lines []string }

type secretsKey struct{}

// collectSecrets returns a context in which ReadSecret records what it reads.
func collectSecrets(ctx context.Context) context.Context {
	return context.WithValue(ctx, secretsKey{}, &secrets{})
}

func secretsOf(ctx context.Context) *secrets {
	s, _ := ctx.Value(secretsKey{}).(*secrets)
	return s
}

// record records a secret line by line, because a server may repeat a single line of it.
func record(ctx context.Context, text string) {
	if s := secretsOf(ctx); s != nil {
		for line := range strings.Lines(text) {
			s.lines = append(s.lines, strings.TrimSpace(line))
		}
	}
}

// Redact removes the secrets of the delivery from a message of a broker. Do not pass it the sentence that the
// message is put into: a secret that is a word of the known sentence would be revealed by its absence.
func Redact(ctx context.Context, text string) string { return secretsOf(ctx).redact(text) }

func (s *secrets) redact(text string) string {
	if s == nil {
		return text
	}
	return secret.RedactAnswer(text, secret.Forms(s.lines), false)
}

// reason returns the text of an error, redacted if it may come from a broker.
func (s *secrets) reason(err error) string {
	if own := OwnError(""); errors.As(err, &own) {
		return string(own)
	}
	return s.redact(err.Error())
}
