package archiver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
)

// Auditor compares a day of the ledger with what the schedules demand.
type Auditor interface {
	// AuditDay judges all due times of a day. known is asked for jobs in the order of partitions and ids, and returns what
	// the pass over the day found for one. It calls each after each page of jobs.
	AuditDay(ctx context.Context, d archive.Day, known func(partition int16, id uuid.UUID) (auditor.Pass, error),
		each func(auditor.Report) error) error
}

// maxAuditFailures is how often the audit of a day may fail. An error that stays must not keep the day from the archive.
const maxAuditFailures = 3

// errAudit marks an error of the audit.
var errAudit = errors.New("audit")

// audit judges the day by what the pass over its rows found.
func (e *export) audit(ctx context.Context) error {
	if e.Audit == nil {
		return nil
	}
	if err := e.step("audit"); err != nil {
		return err
	}
	err := e.auditDay(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if e.task.AuditFailures+1 < maxAuditFailures {
		return fmt.Errorf("%w: %w", errAudit, err)
	}
	e.auditError = err
	e.Log.Error("audit of a day failed, the day is archived without it", "day", e.task.Day.String(),
		"failures", e.task.AuditFailures+1, "error", err)
	return nil
}

func (e *export) auditDay(ctx context.Context) error {
	next, stop := iter.Pull2(e.digests.sorted())
	defer stop()
	var sum auditor.Report
	stream := digestStream{next: next}
	err := e.Audit.AuditDay(ctx, e.task.Day, stream.known, func(r auditor.Report) error {
		sum.Add(r)
		e.found = sum.Found()
		if e.Audited != nil {
			e.Audited(r)
		}
		e.report("audit")
		return e.pace(ctx, int(r.Jobs+r.Expected-r.ByDigest))
	})
	if err == nil && sum.Expected > 0 {
		e.Log.Info("audited a day of history", "day", e.task.Day.String(), "report", sum.String())
	}
	return err
}

type runSeq = iter.Seq2[*archive.Placed[archive.Run], error]

// digestOf adds up the due times of each job while its rows, which are sorted by job, pass by.
func (e *export) digestOf(rows runSeq) runSeq {
	if e.Audit == nil {
		return rows
	}
	e.digests = newSorter[jobDigest](e.workspace)
	from := e.task.Day.Start().UnixMicro()
	to := e.task.Day.Start().AddDate(0, 0, 1).UnixMicro()
	return func(yield func(*archive.Placed[archive.Run], error) bool) {
		var last jobDigest
		flush := func() error {
			if last.Pass == (auditor.Pass{}) {
				return nil
			}
			return e.digests.add(archive.Placed[jobDigest]{Row: last})
		}
		for r, err := range rows {
			if err == nil && r.Row.Job != last.Job {
				err = flush()
				last = jobDigest{Partition: job.PartitionOf(r.Row.Job), Job: r.Row.Job}
			}
			if err == nil {
				last.note(&r.Row, from, to)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := flush(); err != nil {
			yield(nil, err)
		}
	}
}

// jobDigest is what a pass over a day found for a job.
type jobDigest struct {
	Partition int16
	Job       uuid.UUID
	auditor.Pass
}

// note takes a row. Triggers have no due time by schedule. What was skipped, ran early or stands for a range is judged entry
// by entry.
func (d *jobDigest) note(r *archive.Run, from, to int64) {
	started := r.DueAt
	if r.StartedAt != nil {
		started = *r.StartedAt
	}
	const second = 1_000_000
	d.DayBefore = d.DayBefore || r.Seq == 0 && r.DueAt < from
	switch {
	case d.Count < 0 || r.DueTo == nil && (r.DueAt < from || r.DueAt >= to || r.Seq != 0):
	case r.DueTo != nil, r.Status == string(job.StatusSkipped), r.EndedAt < r.DueAt, started < r.DueAt-second:
		d.Spoil()
	default:
		d.Add(r.DueAt)
	}
}

// Compare is the order in which jobs are audited.
func (d *jobDigest) Compare(o *jobDigest) int {
	return cmp.Or(cmp.Compare(d.Partition, o.Partition), bytes.Compare(d.Job[:], o.Job[:]))
}

// Append appends the digest as bytes.
func (d *jobDigest) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, uint16(d.Partition)), d.Job[:]...)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(d.Count)), d.Sum)
	if d.DayBefore {
		return append(b, 1)
	}
	return append(b, 0)
}

// Parse reads what Append appends.
func (d *jobDigest) Parse(b []byte) error {
	if len(b) != 35 {
		return errors.New("a digest is cut short")
	}
	d.Partition, d.Job = int16(binary.BigEndian.Uint16(b)), uuid.UUID(b[2:18])
	d.Count, d.Sum = int64(binary.BigEndian.Uint64(b[18:])), binary.BigEndian.Uint64(b[26:])
	d.DayBefore = b[34] == 1
	return nil
}

// digestStream finds the digests of jobs that are asked for in order.
type digestStream struct {
	next func() (*archive.Placed[jobDigest], error, bool)
	at   jobDigest
	end  bool
}

func (s *digestStream) known(partition int16, id uuid.UUID) (auditor.Pass, error) {
	want := jobDigest{Partition: partition, Job: id}
	for !s.end && s.at.Compare(&want) < 0 {
		r, err, ok := s.next()
		if err != nil {
			return auditor.Pass{}, err
		}
		if s.end = !ok; ok {
			s.at = r.Row
		}
	}
	if !s.end && s.at.Compare(&want) == 0 {
		return s.at.Pass, nil
	}
	return auditor.Pass{}, nil
}
