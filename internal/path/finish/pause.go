package finish

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// pause is a job that failed. It is paused if its last `after` runs have failed.
type pause struct {
	namespace uuid.UUID
	key       job.Key
	after     int32 // 0: at once
}

// failingJobs are jobs whose failures PauseFailing has to count. Pausing locks the job's cursor first, so it needs its
// own transaction, and it waits for the audit log of the namespace, so completions do not wait for it. If the node dies
// in between, the next failure pauses the job.
type failingJobs struct {
	mu   sync.Mutex
	jobs map[uuid.UUID]pause
}

// maxFailing bounds the list. The next failure of a job that is not on it adds it again.
const maxFailing = 100_000

func (f *failingJobs) add(all []pause) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range all {
		switch old, ok := f.jobs[p.key.Job]; {
		case f.jobs == nil:
			f.jobs = map[uuid.UUID]pause{p.key.Job: p}
		case ok && old.after == 0: // it is paused, whatever its other runs did
		case ok || len(f.jobs) < maxFailing:
			f.jobs[p.key.Job] = p
		}
	}
}

// take removes up to n jobs from the list.
func (f *failingJobs) take(n int) (out []pause) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, p := range f.jobs {
		if len(out) == n {
			break
		}
		out = append(out, p)
		delete(f.jobs, id)
	}
	return out
}

// PauseFailing pauses those of up to limit jobs that have failed too often, and returns how many jobs it looked at.
func (s *Store) PauseFailing(ctx context.Context, limit int) (int, error) {
	failing := s.failing.take(limit)
	for i, p := range failing {
		if err := s.pauseFailing(ctx, p); err != nil {
			s.failing.add(failing[i:])
			return i, err
		}
	}
	return len(failing), nil
}

// failuresInARow counts in history instead of a column of the job, so that a success costs nothing. Failures before the
// job's last change do not count, so a resumed job starts again at zero.
const failuresInARow = `
SELECT count(*)
FROM (SELECT h.ended FROM run_history h JOIN job j ON j.partition = $1 AND j.id = $2
      WHERE h.job_id = $2 AND h.ended IN (1, 2) /* succeeded, failed */ AND h.ended_at > j.updated_at
      ORDER BY h.due_at DESC, h.seq DESC LIMIT $3) newest
WHERE ended = 2 /* failed */`

func (s *Store) pauseFailing(ctx context.Context, p pause) error {
	note := "the target reported that it is gone permanently (410)"
	if p.after > 0 {
		var n int32
		if err := s.db.QueryRow(ctx, failuresInARow, p.key.Partition, p.key.Job, p.after).Scan(&n); err != nil {
			return fmt.Errorf("count failures: %w", err)
		}
		if n < p.after {
			return nil
		}
		note = fmt.Sprintf("%d failed runs in a row", p.after)
	}
	_, err := s.pauseJob(ctx, job.ChangeParams{Namespace: p.namespace, ID: p.key.Job}, note)
	if errors.Is(err, job.ErrNotFound) {
		return nil
	}
	return err
}
