package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
)

// Auditor is the store as the audit sees it.
type Auditor interface {
	// AuditSample judges random occurrences of the last hour in some partitions.
	AuditSample(ctx context.Context, partitions []int16) (auditor.Report, error)
}

// auditPause is the time between two samples. If one occurrence in 1,000 is lost, an hour of them finds one with a
// probability above 0.9999.
const auditPause = time.Minute

// auditOnce judges a sample of the ledger. A finding is stored, counted and logged, and never repaired: what caused it
// must be known first.
func (e *Engine) auditOnce(ctx context.Context) (time.Duration, error) {
	r, err := e.Auditor.AuditSample(ctx, e.Member.Owned())
	if err != nil {
		return 0, err
	}
	e.NoteAudit(r)
	e.stats.auditedAt.Store(e.Bound.Now().UnixMilli())
	return auditPause, nil
}

// NoteAudit counts and logs what an audit found, each finding once. It is safe for concurrent use.
func (e *Engine) NoteAudit(r auditor.Report) {
	e.stats.audited.Add(r.Expected)
	for _, f := range r.Findings {
		if !f.New {
			continue
		}
		e.Observe.Found(f.Kind)
		e.Log.Error("audit finding", "kind", f.Kind, "job", job.FormatJobID(f.Job), "due_at", f.DueAt)
	}
}
