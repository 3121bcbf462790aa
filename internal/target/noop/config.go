package noop

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// Check accepts no config, null and an empty object: the target has no settings.
func (*Target) Check(config json.RawMessage) error {
	if len(config) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(config, &fields) != nil {
		return &problem.Problem{
			Field: "target.config", Problem: "it is not a JSON object", Fix: "leave it out: noop has no settings",
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		return &problem.Problem{
			Field: "target.config." + name, Problem: "noop has no such setting", Fix: "remove it: noop has no settings",
		}
	}
	return nil
}

// Uses returns nothing: the target has no secrets.
func (*Target) Uses(json.RawMessage) secret.Uses { return secret.Uses{} }
