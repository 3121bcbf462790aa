package postgres

import (
	"bytes"
	"cmp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
)

// byKey is the condition that names one run.
const byKey = `partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4`

// compareKeys is the order in which every transaction locks runs, so that two
// transactions never wait for each other.
func compareKeys(x, y job.Key) int {
	return cmp.Or(cmp.Compare(x.Partition, y.Partition), bytes.Compare(x.Job[:], y.Job[:]), x.CompareDue(y))
}

// keyColumns are keys as the arrays that statements take.
type keyColumns struct {
	partition []int16
	job       pgtype.FlatArray[pgtype.UUID]
	dueAt     []time.Time
	seq       []int16
}

func splitKeys(keys []job.Key) keyColumns {
	k := keyColumns{
		partition: make([]int16, len(keys)), job: make([]pgtype.UUID, len(keys)),
		dueAt: make([]time.Time, len(keys)), seq: make([]int16, len(keys)),
	}
	for i, key := range keys {
		k.partition[i], k.dueAt[i], k.seq[i] = key.Partition, key.DueAt, key.Seq
		k.job[i] = pgtype.UUID{Bytes: key.Job, Valid: true}
	}
	return k
}

// raw lets pgx read and write a UUID as bytes. A uuid.UUID goes through its text
// and back: a quarter of this process's CPU in the hot statements.
func raw(id *uuid.UUID) *[16]byte { return (*[16]byte)(id) }
