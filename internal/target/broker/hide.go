package broker

import (
	"context"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// secrets are those that one delivery has read, kept to be blotted out of its
// message: a server, or what stands before it, may give as its reason what it was sent.
type secrets struct{ lines []string }

type secretsKey struct{}

// remembering is a context in which ReadSecret notes what it reads.
func remembering(ctx context.Context) (context.Context, *secrets) {
	s := &secrets{}
	return context.WithValue(ctx, secretsKey{}, s), s
}

// note takes a secret line by line: messages have no line breaks.
func note(ctx context.Context, text string) {
	if s, ok := ctx.Value(secretsKey{}).(*secrets); ok {
		for line := range strings.Lines(text) {
			s.lines = append(s.lines, strings.TrimSpace(line))
		}
	}
}

func (s *secrets) hide(message string) string {
	return secret.Blot(message, secret.Forms(s.lines))
}
