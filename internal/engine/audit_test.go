package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/clock"
)

type fakeAuditor struct {
	report auditor.Report
	err    error
}

func (f *fakeAuditor) AuditSample(context.Context, []int16) (auditor.Report, error) {
	return f.report, f.err
}

type ownsOne struct{ Member }

func (ownsOne) Owned() []int16 { return []int16{1} }

// TestAuditReportsEachFindingOnce: what an earlier sample found is neither counted nor logged again.
func TestAuditReportsEachFindingOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	bound := &clock.Bound{}
	at := time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC)
	bound.Set(clock.Sample{Now: at, Mark: at})
	f := &fakeAuditor{report: auditor.Report{Expected: 200, Missing: 2, Phantom: 1, Findings: []auditor.Finding{
		{Kind: auditor.Missing, Job: uuid.New(), DueAt: at, New: true},
		{Kind: auditor.Missing, Job: uuid.New(), DueAt: at},
		{Kind: auditor.Phantom, Job: uuid.New(), DueAt: at, New: true},
	}}}
	e := New(Options{Auditor: f, Member: ownsOne{}, Bound: bound, Log: slog.New(slog.NewTextHandler(&log, nil))})
	pause, err := e.auditOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, auditPause, pause)
	c := e.Counts()
	require.Equal(t, []int64{200, 1, 1}, []int64{c.Audited, c.Missing, c.Phantom})
	require.InDelta(t, float64(at.Unix()), c.AuditedAt, 60)
	require.Equal(t, 2, bytes.Count(log.Bytes(), []byte(`msg="audit finding"`)))
	require.Contains(t, log.String(), "kind=missing")

	f.err = errors.New("down")
	_, err = e.auditOnce(t.Context())
	require.Error(t, err)
}
