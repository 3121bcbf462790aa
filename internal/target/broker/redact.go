package broker

import (
	"context"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// secrets are the secrets that one delivery has read. They are redacted from what is reported about it,
// because a server, or a proxy in front of it, may repeat what it received. Nil: none.
type secrets struct{ lines []string }

type secretsKey struct{}

// collectSecrets returns a context in which record records.
func collectSecrets(ctx context.Context) context.Context {
	return context.WithValue(ctx, secretsKey{}, &secrets{})
}

// record records secrets line by line, because a server may repeat a single line of one.
func record(ctx context.Context, texts ...string) {
	s, _ := ctx.Value(secretsKey{}).(*secrets)
	if s == nil {
		return
	}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			s.lines = append(s.lines, strings.TrimSpace(line))
		}
	}
}

// Redact removes the secrets of the delivery from a message of a broker. Do not pass it the sentence that the
// message is put into: a secret that is a word of the known sentence would be revealed by its absence.
func Redact(ctx context.Context, text string) string {
	s, _ := ctx.Value(secretsKey{}).(*secrets)
	if s == nil {
		return text
	}
	return secret.RedactAnswer(text, secret.Forms(s.lines), false)
}
