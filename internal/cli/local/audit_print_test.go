package local

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/auditor"
)

// TestPrintAuditSaysWhatItLeavesOut: the table and the backfill are bounded, and say so.
func TestPrintAuditSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	text := func(r app.AuditResult, backfill bool) string {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		require.NoError(t, printAudit(cmd, &r, backfill))
		return out.String()
	}
	var r app.AuditResult
	r.Jobs = 1
	require.Contains(t, text(r, false), ", 1 job\n")
	require.NotContains(t, text(r, false), "keep the logs")
	r.Phantom, r.Findings = 100, make([]auditor.Finding, 100)
	out := text(r, false)
	require.NotContains(t, out, "more;")
	require.Contains(t, out, "keep the logs and the WAL of that time and report it\n")

	r.Missing, r.Findings = 12_000, make([]auditor.Finding, auditor.MaxFindings)
	out = text(r, false)
	require.Contains(t, out, "\n… and 12000 more; -o json lists up to 10,000\n")
	require.Contains(t, out, "report it; --backfill runs what is missing\n")
	r.BackfilledNow = 9_900
	require.Contains(t, text(r, true), "\nrun now: 9900 missing occurrences\nrun it again for the rest\n")
	r.BackfilledNow = 12_000
	require.NotContains(t, text(r, true), "run it again")
}
