package remote

import (
	"fmt"
	"strings"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// maxCandidates is how many candidates the error for an ambiguous name lists.
const maxCandidates = 10

// IsPrefix reports whether text is the beginning of an id, with at least one character after the kind.
func IsPrefix(text, kind, id string) bool {
	return len(text) > len(kind) && strings.HasPrefix(text, kind) && strings.HasPrefix(id, text)
}

// OnlyOne returns the id of the only thing that was found. If there are several, the error lists them.
func OnlyOne[T any](noun, name string, found []T, describe func(T) (id, about string)) (string, error) {
	if len(found) == 1 {
		id, _ := describe(found[0])
		return id, nil
	}
	var b strings.Builder
	for i, x := range found {
		if i == maxCandidates {
			b.WriteString("\n  …")
			break
		}
		id, about := describe(x)
		fmt.Fprintf(&b, "\n  %s  %s", id, about)
	}
	return "", usage.Errorf("%s matches more than one %s; name one of:%s", terminal.Clean(name), noun, b.String())
}

// ActorName returns the name of an actor without the id behind it.
func ActorName(actor string) string {
	name, _, _ := strings.Cut(actor, " [")
	return terminal.Dash(strings.TrimPrefix(name, "key:"))
}
