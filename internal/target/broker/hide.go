package broker

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

const (
	// minSecret: shorter values are no secrets worth the name, and blotting them out
	// would make texts unreadable.
	minSecret = 6
	blot      = "[hidden]"
	more      = "…" // where a text was cut
)

// secrets are those that one delivery has read, kept to be blotted out of its
// message: a server, or what stands before it, may give as its reason what it was sent.
type secrets struct{ texts []string }

type secretsKey struct{}

// remembering is a context in which ReadSecret notes what it reads.
func remembering(ctx context.Context) (context.Context, *secrets) {
	s := &secrets{}
	return context.WithValue(ctx, secretsKey{}, s), s
}

func note(ctx context.Context, text string) {
	if s, ok := ctx.Value(secretsKey{}).(*secrets); ok {
		s.texts = append(s.texts, text)
	}
}

// hide blots the secrets out of a message: line by line, as they are and as quoted texts.
func (s *secrets) hide(message string) string {
	var all []string
	for _, text := range s.texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= minSecret {
				quoted := strconv.Quote(line)
				all = append(all, line, quoted[1:len(quoted)-1])
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, text := range all {
		message = strings.ReplaceAll(message, text, blot)
	}
	// It may have been cut within one.
	start, isCut := strings.CutSuffix(message, more)
	for _, text := range all {
		for n := min(len(text)-1, len(start)); isCut && n > 0; n-- {
			if strings.HasSuffix(start, text[:n]) {
				return start[:len(start)-n] + blot
			}
		}
	}
	return message
}
