package worker_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/worker"
)

func TestConfigNamesAHandler(t *testing.T) {
	t.Parallel()
	w := worker.New()
	t.Cleanup(w.Close)
	require.NoError(t, w.Check(json.RawMessage(`{"handler":"team/send-invoice:v2"}`)))
	for _, bad := range []string{
		``, `null`, `[]`, `"x"`, `{}`, `{"handler":""}`, `{"handler":7}`, `{"handler":"a b"}`,
		`{"handler":"x","url":"y"}`, `{"handler":" x"}`,
	} {
		problems := problem.All(w.Check(json.RawMessage(bad)))
		require.Len(t, problems, 1, bad)
		require.NotEmpty(t, problems[0].Fix, bad)
	}
}

// A node that claimed a run just before its job was changed to workers returns it.
func TestANodeDeliversNothing(t *testing.T) {
	t.Parallel()
	o := worker.New().Deliver(t.Context(), job.Attempt{})
	require.Equal(t, job.Snoozed, o.Kind, "it does not count as an attempt")
}
