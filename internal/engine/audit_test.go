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

type countFindings struct {
	noObserver
	kinds []auditor.Kind
}

func (c *countFindings) Found(kind auditor.Kind) { c.kinds = append(c.kinds, kind) }

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
		{Kind: auditor.Early, Job: uuid.New(), DueAt: at, New: true},
		{Kind: auditor.Duplicate, Job: uuid.New(), DueAt: at, New: true},
	}}}
	found := &countFindings{}
	e := New(Options{
		Auditor: f, Member: ownsOne{}, Bound: bound, Log: slog.New(slog.NewTextHandler(&log, nil)), Observe: found,
	})
	pause, err := e.auditOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, auditPause, pause)
	c := e.Counts()
	require.EqualValues(t, 200, c.Audited)
	require.Equal(t, []auditor.Kind{auditor.Missing, auditor.Phantom, auditor.Early, auditor.Duplicate}, found.kinds)
	require.InDelta(t, float64(at.Unix()), c.AuditedAt, 60)
	require.Equal(t, 4, bytes.Count(log.Bytes(), []byte(`msg="audit finding"`)))
	require.Contains(t, log.String(), "kind=missing")

	f.err = errors.New("down")
	_, err = e.auditOnce(t.Context())
	require.Error(t, err)
}
