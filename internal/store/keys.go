package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
)

// ByKey is the condition that names one run.
const ByKey = `partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4`

// CompareKeys is the order in which every transaction locks runs, so that two
// transactions never wait for each other.
func CompareKeys(x, y job.Key) int {
	return cmp.Or(cmp.Compare(x.Partition, y.Partition), bytes.Compare(x.Job[:], y.Job[:]), x.CompareDue(y))
}

// Keys are keys as the arrays that statements take.
type Keys struct {
	Partition []int16
	Job       pgtype.FlatArray[pgtype.UUID]
	DueAt     []time.Time
	Seq       []int16
}

// SplitKeys returns keys by columns.
func SplitKeys(keys []job.Key) Keys {
	k := Keys{
		Partition: make([]int16, len(keys)), Job: make([]pgtype.UUID, len(keys)),
		DueAt: make([]time.Time, len(keys)), Seq: make([]int16, len(keys)),
	}
	for i, key := range keys {
		k.Partition[i], k.DueAt[i], k.Seq[i] = key.Partition, key.DueAt, key.Seq
		k.Job[i] = pgtype.UUID{Bytes: key.Job, Valid: true}
	}
	return k
}

// Raw lets pgx read and write a UUID as bytes. A uuid.UUID goes through its text
// and back: a quarter of this process's CPU in the hot statements.
func Raw(id *uuid.UUID) *[16]byte { return (*[16]byte)(id) }

// SessionLock is the number of the advisory lock of a session. Only locks of
// transactions: locks of database sessions leak through PgBouncer.
func SessionLock(session uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(session[8:]))
}
