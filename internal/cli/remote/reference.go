package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	maxCandidates = 10     // candidates that the error for an ambiguous name lists
	maxSearched   = 10_000 // jobs or operations that are read to find the one whose id begins so
)

// resolve replaces short forms of ids in the arguments of a command. Use says what the arguments are.
func (r *Server) resolve(ctx context.Context, args []string) ([]string, error) {
	noun, several := Noun(r.Cmd.Use)
	out := append([]string{}, args...)
	for i := range out {
		if i > 0 && !several {
			break
		}
		var err error
		switch noun {
		case "RUN":
			out[i], err = r.RunID(ctx, out[i])
		case "JOB":
			out[i], err = r.JobID(ctx, out[i])
		case "OPERATION":
			out[i], err = r.find(ctx, "operation", "/operations", "op_", out[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// JobID returns the id of the job that a user named by the beginning of its id. It returns names as they are.
func (r *Server) JobID(ctx context.Context, text string) (string, error) {
	return r.find(ctx, "job", "/jobs", "job_", text)
}

// find returns the id in a list that begins with text. It returns text that is no such beginning as it is, and the
// server reports what does not exist.
func (r *Server) find(ctx context.Context, noun, path, kind, text string) (string, error) {
	begun, ok := strings.CutPrefix(text, kind)
	if !ok || begun == "" || len(begun) >= job.Alphabet.EncodedLen(16) || strings.Trim(begun, alphabet) != "" {
		return text, nil
	}
	type item struct{ ID, Name, Kind string }
	var found []item
	read := 0
	for raw, err := range r.List(ctx, path, map[string][]string{"page_size": {strconv.Itoa(MaxPage)}}) {
		if err != nil {
			return "", err
		}
		if read++; read > maxSearched {
			return "", usage.Errorf("%s: no %s among the first %d has an id that begins so; write its name or its whole id",
				text, noun, maxSearched)
		}
		var x item
		if err := json.Unmarshal(raw, &x); err != nil {
			return "", err
		}
		if x.Name == text { // a name may look like an id
			return text, nil
		}
		if IsPrefix(text, kind, x.ID) {
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		return text, nil
	}
	return OnlyOne(noun, text, found, func(x item) (string, string) { return x.ID, terminal.Clean(x.Name + x.Kind) })
}

const alphabet = "0123456789abcdefghijklmnopqrstuv"

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

// shownOfID is how many characters of an id are shown after its kind.
const shownOfID = 10

// ActorName returns the name of an actor and the beginning of its id: names are not unique, and people choose them.
func ActorName(actor string) string {
	i := strings.LastIndex(actor, " [")
	if i < 0 { // Belfry itself
		return terminal.Dash(actor)
	}
	id := strings.TrimSuffix(actor[i+2:], "]")
	if end := strings.IndexByte(id, '_') + 1 + shownOfID; end < len(id) {
		id = id[:end] + "…"
	}
	_, name, _ := strings.Cut(actor[:i], ":")
	return name + " · " + id
}
