package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// The size of a sample.
const (
	samplePages = 256  // pages of the table that are read for jobs of all partitions
	sampleMost  = 2048 // most pages, if the node owns few partitions
	sampleJobs  = 200  // jobs with an occurrence in the last hour
	sampleTried = 1000 // jobs that are judged for that
	sampleRows  = 5    // due times of a job, one after the other
)

// sampleOf chooses jobs from random pages of the table. Random ids would not do: they are times, so a job after a pause
// in the creation of jobs would be chosen more often.
const sampleOf = `
SELECT partition, id AS job_id FROM job
TABLESAMPLE SYSTEM (least(100, 819200.0 * @pages / greatest(pg_relation_size('job'), 1)))
WHERE partition = ANY (@partitions::smallint[])
ORDER BY random() LIMIT @limit`

// AuditSample judges random occurrences of the last hour in some partitions.
func (e *Engine) AuditSample(ctx context.Context, partitions []int16) (out auditor.Report, err error) {
	if len(partitions) == 0 {
		return out, nil
	}
	now, floor, err := auditFloor(ctx, e.db)
	if err != nil {
		return out, err
	}
	w := auditor.Window{From: store.Later(now.Add(-time.Hour), floor), To: now}
	jobs, err := auditJobs(ctx, e.db, sampleOf, w.From, pgx.NamedArgs{
		"partitions": partitions, "limit": sampleTried,
		"pages": min(samplePages*job.Partitions/len(partitions), sampleMost),
	})
	if err != nil {
		return out, err
	}
	swap := func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] }
	rand.Shuffle(len(jobs), swap) //nolint:gosec // a sample is no secret
	times := auditor.NewTimes(false)
	var batch []*auditor.Expected
	for found := 0; len(jobs) > 0 && found < sampleJobs; jobs = jobs[1:] {
		x, err := jobs[0].Expect(times, w)
		if err != nil {
			out.Unreadable++
			continue
		}
		if x.Len() > 0 {
			found++
		}
		batch = append(batch, x.Part(sampleRows, rand.IntN))
	}
	out.Jobs = int64(len(batch))
	r, err := judgeBatch(ctx, e.db, times, batch)
	if err != nil {
		return out, err
	}
	out.Add(r)
	return out, saveFindings(ctx, e.db, &out)
}
