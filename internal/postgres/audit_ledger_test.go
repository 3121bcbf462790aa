package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
)

// audit audits the ledger to the end.
func (b *jobs) audit(p auditor.Params) (out auditor.Report) {
	b.t.Helper()
	a, err := b.store.AuditLedger(context.Background(), p)
	require.NoError(b.t, err)
	for more := true; more; {
		var r auditor.Report
		r, _, more, err = a.Page(context.Background())
		require.NoError(b.t, err)
		out.Add(r)
	}
	sum := out.Run + out.Live + out.Backfilled + out.Paused + out.NotPlanned + out.Missing
	for _, n := range out.Skipped {
		sum += n
	}
	require.Equal(b.t, out.Expected, sum, "each expected occurrence is counted once: %s", &out)
	return out
}

func TestAuditOfAnEmptyLedger(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	r := b.audit(auditor.Params{Window: auditor.Window{From: b.now().Add(-time.Hour)}})
	require.Equal(t, auditor.Report{}, r)
}
