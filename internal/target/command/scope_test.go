//go:build linux

package command_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/command"
)

// TestProgramsOfANamespace: an entry with a namespace lets no job of another one run the program, or see it.
func TestProgramsOfANamespace(t *testing.T) {
	t.Parallel()
	billing, other := uuid.New(), uuid.New()
	o := options(t)
	o.Programs = []string{"/bin/sh", "billing=" + directory}
	asked := 0
	o.Namespace = func(_ context.Context, id uuid.UUID) (string, error) {
		asked++
		return map[uuid.UUID]string{billing: "billing", other: "other"}[id], nil
	}
	target := start(t, o)
	run := func(namespace uuid.UUID, config string) job.Outcome {
		a := attempt(config, time.Minute)
		a.Namespace = namespace
		return target.Deliver(t.Context(), a)
	}
	inside := `{"program":"` + program() + `"}`
	look := `{"program":"/bin/sh","args":["-c","test -e ` + directory + `"]}`

	const refused = "is not among the programs that this node runs for the namespace other; " +
		"its operator can add it to command.programs"
	require.Contains(t, run(other, inside).Message, refused)
	require.NotContains(t, run(billing, inside).Message, "is not among the programs")
	require.Equal(t, job.Failed, run(other, look).Kind, "the path is not there")
	require.Equal(t, job.Succeeded, run(billing, look).Kind)
	require.Equal(t, job.Succeeded, run(other, `{"program":"/bin/sh","args":["-c","true"]}`).Kind)
	require.Equal(t, 2, asked, "names are kept")
}

// TestPermit: what the settings do not let a namespace run is refused when a job is saved.
func TestPermit(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Programs = []string{"/bin/sh", "/not/here", "billing=/bin/cat"}
	o.Images = []string{"docker.io/busybox:1", "billing=registry.example.com/b/*"}
	resolved, err := filepath.EvalSymlinks("/bin/sh")
	require.NoError(t, err)
	for _, c := range []struct{ namespace, config, field string }{
		{"other", `{"program":"/bin/sh"}`, ""},
		{"other", `{"program":"` + resolved + `"}`, ""},
		{"other", `{"program":"/not/here/report"}`, ""},
		{"other", `{"program":"/not/hereafter"}`, "target.config.program"},
		{"other", `{"program":"/bin/cat"}`, "target.config.program"},
		{"billing", `{"program":"/bin/cat"}`, ""},
		{"billing", `{"program":"/bin/sh","network":true}`, "target.config.network"},
		{"other", `{"image":"docker.io/busybox:1"}`, ""},
		{"other", `{"image":"registry.example.com/b/x"}`, "target.config.image"},
		{"billing", `{"image":"registry.example.com/b/x","program":"/any"}`, ""},
	} {
		o.Socket = "/run/engine.sock"
		problems := problem.All(command.New(o).Permit(c.namespace, json.RawMessage(c.config)))
		if c.field == "" {
			require.Empty(t, problems, c)
			continue
		}
		require.Len(t, problems, 1, c)
		require.Equal(t, c.field, problems[0].Field)
	}
	o.Socket = ""
	require.ErrorContains(t, command.New(o).Permit("other", json.RawMessage(`{"image":"docker.io/busybox:1"}`)),
		"nodes run no containers")
}
