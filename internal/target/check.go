package target

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
)

// Checker returns a function that checks the target of a job. kinds are those that the setting targets.kinds may list.
func Checker(targets map[string]Target, kinds []string) func(kind string, config json.RawMessage) error {
	others := "use one of " + strings.Join(slices.Sorted(maps.Keys(targets)), ", ")
	return func(kind string, config json.RawMessage) error {
		t, ok := targets[kind]
		switch {
		case ok:
			return t.Check(config)
		case kind == "command":
			return problem.New("target.kind", "commands are disabled on this server",
				"set command.enabled and command.programs (or command.images) on all nodes and restart them, or "+others)
		case slices.Contains(kinds, kind):
			return problem.New("target.kind", "this kind of target is disabled on this server",
				"add it to the setting targets.kinds of all nodes and restart them, or "+others)
		default:
			return problem.New("target.kind", "there is no such kind of target", others)
		}
	}
}
