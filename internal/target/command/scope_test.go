package command_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
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
