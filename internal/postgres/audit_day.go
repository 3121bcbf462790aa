package postgres

import (
	"context"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/auditor"
)

// AuditDay audits all due times of a day. known returns what a pass over the entries that ended that day found for a job;
// it is asked in the order of partitions and jobs. Only jobs for which that is not enough are read by the index: those
// with entries that ended later, with skips, or with something wrong. Jobs with entries of the day before that ended on this
// day are judged for that day again, because its pass did not see them. It calls each after each page of jobs. The first
// day of history is not complete and not judged: it ends when the day becomes that.
func (a *Archive) AuditDay(
	ctx context.Context, d archive.Day, known func(partition int16, id uuid.UUID) (auditor.Pass, error),
	each func(auditor.Report) error,
) error {
	w := auditor.DayOf(d.Start())
	audit, err := auditLedger(ctx, a.db, auditor.Params{Window: w})
	if err != nil || audit.Floor().After(d.Start()) {
		return err
	}
	audit.known, audit.params.Window = known, w
	for more := true; more && !audit.Floor().After(d.Start()); {
		var r auditor.Report
		if r, _, more, err = audit.Page(ctx); err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}
