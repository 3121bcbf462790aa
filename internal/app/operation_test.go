package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestANodeWorksOnOperations(t *testing.T) {
	t.Parallel()
	b, s := start(t), newSink(t)
	for _, name := range []string{"one", "two", "three"} {
		b.create(t, name, func(d *job.Definition) { d.Target = s.target("/no") })
	}
	b.eventually(t, 3, `SELECT count(*) FROM dead_letter`)
	_, err := b.store.BeginOperation(t.Context(), job.OperationParams{
		Namespace: namespace, Kind: job.Redrive, Actor: "test",
		Filter: job.DeadFilter{Reason: job.ReasonRejected}, Rate: 100,
	})
	require.NoError(t, err)
	b.eventually(t, 1, `SELECT count(*) FROM operation WHERE state = 'finished' AND done = 3`)
	b.eventually(t, 6, `SELECT count(*) FROM run_history WHERE ended = 2`) // they failed again,
	b.eventually(t, 3, `SELECT count(*) FROM dead_letter`)                 // and are left alone
	b.eventually(t, 3, `SELECT count(*) FROM run_history WHERE ended = 2 AND origin = 4 AND attempt = 2`)
}
