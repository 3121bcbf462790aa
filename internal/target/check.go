package target

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// permitter is a kind of target whose settings say what a namespace may use.
type permitter interface {
	// Permit reports what the settings do not let a namespace use, for a config that Check has accepted. It may read
	// local files.
	Permit(namespace string, config json.RawMessage) error
}

// Checker returns a function that checks the target of a job of a namespace. kinds are those that the setting
// targets.kinds may list.
func Checker(targets map[string]Target, kinds []string) func(namespace string, t job.Target) error {
	others := "use one of " + strings.Join(slices.Sorted(maps.Keys(targets)), ", ")
	return func(namespace string, of job.Target) error {
		t, ok := targets[of.Kind]
		switch {
		case ok:
			err := t.Check(of.Config)
			if p, ok := t.(permitter); ok && err == nil {
				err = p.Permit(namespace, of.Config)
			}
			return err
		case of.Kind == "command":
			return problem.New("target.kind", "commands are disabled on this server",
				"set command.enabled and command.programs (or command.images) on all nodes and restart them, or "+others)
		case slices.Contains(kinds, of.Kind):
			return problem.New("target.kind", "this kind of target is disabled on this server",
				"add it to the setting targets.kinds of all nodes and restart them, or "+others)
		default:
			return problem.New("target.kind", "there is no such kind of target", others)
		}
	}
}
