package archive

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Run is an entry of the ledger about an ended run, or about a range of occurrences that did not run. Its fields are the
// columns of the files. Times are microseconds since 1970. An optional column is null where the ledger has nothing.
type Run struct {
	Job            uuid.UUID `parquet:"job_id,uuid,dict"`
	DueAt          int64     `parquet:"due_at,timestamp(microsecond),delta"`
	Seq            int32     `parquet:"seq"`
	EndedAt        int64     `parquet:"ended_at,timestamp(microsecond),delta"`
	RunAt          int64     `parquet:"run_at,timestamp(microsecond),delta"`
	StartedAt      *int64    `parquet:"started_at,timestamp(microsecond)"`
	DueTo          *int64    `parquet:"due_to,timestamp(microsecond)"`
	Count          int64     `parquet:"count,optional"` // of a range; null: one occurrence, or too many to count
	Partition      int32     `parquet:"partition,dict"`
	Version        int32     `parquet:"version,dict"`
	Attempt        int32     `parquet:"attempt,dict"`
	Code           int32     `parquet:"code,dict"` // of the target's protocol; 0: none
	Status         string    `parquet:"status,dict"`
	Origin         string    `parquet:"origin,dict"`
	JobName        string    `parquet:"job_name,optional,dict"`
	Queue          string    `parquet:"queue,optional,dict"`
	Labels         string    `parquet:"labels,optional,dict"` // of the version of the job, as JSON
	Session        uuid.UUID `parquet:"session_id,uuid,optional,dict"`
	Reason         string    `parquet:"reason,optional,dict"`
	Message        string    `parquet:"message,optional"`
	Result         string    `parquet:"result,optional"`
	IdempotencyKey string    `parquet:"idempotency_key,optional"` // null: it is the run's id
	Trace          string    `parquet:"trace,optional"`           // traceparent of the request that triggered the run
	Attempts       []Attempt `parquet:"attempts,list"`            // before the last one
}

// Attempt is an attempt before the last one of a run.
type Attempt struct {
	Number    int32     `parquet:"number"`
	StartedAt *int64    `parquet:"started_at,timestamp(microsecond)"`
	EndedAt   *int64    `parquet:"ended_at,timestamp(microsecond)"`
	Outcome   string    `parquet:"outcome"`
	Code      int32     `parquet:"code"`
	Message   string    `parquet:"message,optional"`
	Session   uuid.UUID `parquet:"session_id,uuid,optional"`
	Node      string    `parquet:"node,optional"`
	Worker    bool      `parquet:"worker"`
}

var outcomes = map[job.OutcomeKind]string{
	job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "accepted", job.Lost: "lost",
	job.Cancelled: "cancelled", job.Deferred: "deferred", job.Snoozed: "snoozed",
}

// NewRun returns the row of an entry. Labels are those of the version of its job. It fails for an entry that is not of
// history, because a row that cannot be read again must not be written. An origin or an outcome of a later version is
// written as its number: one row must not keep its day out of the archive.
func NewRun(e job.Entry, labels map[string]string) (Run, error) {
	switch e.Status {
	case job.StatusSucceeded, job.StatusFailed, job.StatusCancelled, job.StatusSkipped:
	default:
		return Run{}, fmt.Errorf("archive %s: %q is not the state of an ended run", job.FormatRunID(e.Key), e.Status)
	}
	for _, t := range []time.Time{e.DueAt, e.RunAt, e.StartedAt, e.EndedAt, e.DueTo} {
		if !time.UnixMicro(t.UnixMicro()).Equal(t) {
			return Run{}, fmt.Errorf("archive %s: %s is not a whole number of microseconds", job.FormatRunID(e.Key), t)
		}
	}
	r := Run{
		Job: e.Job, DueAt: e.DueAt.UnixMicro(), Seq: int32(e.Seq), EndedAt: e.EndedAt.UnixMicro(),
		RunAt: e.RunAt.UnixMicro(), StartedAt: micros(e.StartedAt), DueTo: micros(e.DueTo), Count: e.Count,
		Partition: int32(e.Partition), Version: e.Version, Attempt: int32(e.Attempt), Code: int32(e.Code),
		Status: string(e.Status), Origin: nameOf(job.OriginNames, e.Origin), JobName: e.JobName, Queue: e.Queue, Session: e.Session,
		Reason: string(e.Reason), Message: e.Message, Result: e.Result, IdempotencyKey: e.OwnKey,
		Trace: e.Trace,
	}
	if len(labels) > 0 {
		text, err := json.Marshal(labels) // sorted by key
		if err != nil {
			return Run{}, err
		}
		r.Labels = string(text)
	}
	for _, a := range e.Attempts {
		r.Attempts = append(r.Attempts, Attempt{
			Number: int32(a.Number), StartedAt: micros(a.StartedAt), EndedAt: micros(a.EndedAt),
			Outcome: nameOf(outcomes, a.Outcome), Code: int32(a.Code), Message: a.Message, Session: a.Session,
			Node: a.Node, Worker: a.Worker,
		})
	}
	return r, nil
}

// Entry returns the entry of the ledger that the row was written from. The name of the node of the last attempt is not
// archived.
func (r *Run) Entry() (job.Entry, error) {
	e := job.Entry{
		Key:    job.Key{Partition: int16(r.Partition), Job: r.Job, DueAt: fromMicros(&r.DueAt), Seq: int16(r.Seq)},
		Status: job.RunStatus(r.Status), Version: r.Version, RunAt: fromMicros(&r.RunAt),
		StartedAt: fromMicros(r.StartedAt), EndedAt: fromMicros(&r.EndedAt), Attempt: int16(r.Attempt),
		Code: int(r.Code), Session: r.Session, DueTo: fromMicros(r.DueTo), Count: r.Count,
		Reason: job.Reason(r.Reason), Message: r.Message, OwnKey: r.IdempotencyKey, Result: r.Result,
		JobName: r.JobName, Queue: r.Queue, Trace: r.Trace,
	}
	var ok bool
	if e.Origin, ok = keyOf(job.OriginNames, r.Origin); !ok {
		return e, fmt.Errorf("unknown origin %q", r.Origin)
	}
	for _, n := range []int32{r.Partition, r.Seq, r.Attempt} {
		if n < math.MinInt16 || n > math.MaxInt16 {
			return e, fmt.Errorf("%d is out of range", n)
		}
	}
	for _, a := range r.Attempts {
		outcome, ok := keyOf(outcomes, a.Outcome)
		if !ok || a.Number < 0 || a.Number > math.MaxInt16 {
			return e, fmt.Errorf("cannot read attempt %d with outcome %q", a.Number, a.Outcome)
		}
		e.Attempts = append(e.Attempts, job.AttemptEnd{
			Number: int16(a.Number), StartedAt: fromMicros(a.StartedAt), EndedAt: fromMicros(a.EndedAt),
			Outcome: outcome, Code: int(a.Code), Message: a.Message, Session: a.Session, Node: a.Node, Worker: a.Worker,
		})
	}
	return e, nil
}

// Key identifies the row within its day, as job_id|due_at|seq|ended_at with times in microseconds.
func (r *Run) Key() string {
	b := make([]byte, 0, 80)
	b = append(append(b, r.Job.String()...), '|')
	b = append(strconv.AppendInt(b, r.DueAt, 10), '|')
	b = append(strconv.AppendInt(b, int64(r.Seq), 10), '|')
	return string(strconv.AppendInt(b, r.EndedAt, 10))
}

// Compare is the order of rows in files: job, due time, sequence number and end. Rows that have all of these in common
// are ordered by their content, so that the order of a set of rows is unique.
func (r *Run) Compare(o *Run) int {
	if c := bytes.Compare(r.Job[:], o.Job[:]); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(r.DueAt, o.DueAt), cmp.Compare(r.Seq, o.Seq), cmp.Compare(r.EndedAt, o.EndedAt)); c != 0 {
		return c
	}
	return bytes.Compare(r.Append(nil), o.Append(nil))
}

func (r *Run) dueTimes() (first, last int64) {
	if r.DueTo != nil {
		return r.DueAt, max(r.DueAt, *r.DueTo)
	}
	return r.DueAt, r.DueAt
}

// Append appends all columns, so that different rows have different bytes. Parse reads them.
func (r *Run) Append(b []byte) []byte {
	b = append(b, r.Job[:]...)
	for _, n := range []int64{
		r.DueAt, int64(r.Seq), r.EndedAt, r.RunAt, r.Count, int64(r.Partition), int64(r.Version), int64(r.Attempt),
		int64(r.Code),
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = appendOptional(appendOptional(b, r.StartedAt), r.DueTo)
	b = append(b, r.Session[:]...)
	for _, s := range []string{
		r.Status, r.Origin, r.JobName, r.Queue, r.Labels, r.Reason, r.Message, r.Result, r.IdempotencyKey,
		r.Trace,
	} {
		b = appendText(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Attempts)))
	for i := range r.Attempts {
		a := &r.Attempts[i]
		b = binary.BigEndian.AppendUint32(b, uint32(a.Number))
		b = binary.BigEndian.AppendUint32(b, uint32(a.Code))
		b = appendOptional(appendOptional(b, a.StartedAt), a.EndedAt)
		b = append(b, a.Session[:]...)
		b = appendText(appendText(appendText(b, a.Outcome), a.Message), a.Node)
		worker := byte(0)
		if a.Worker {
			worker = 1
		}
		b = append(b, worker)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendOptional(b []byte, n *int64) []byte {
	if n == nil {
		return append(b, 0)
	}
	return binary.BigEndian.AppendUint64(append(b, 1), uint64(*n))
}

// micros returns nil for the zero time, which stands for none.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMicro()
	return &n
}

func fromMicros(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return time.UnixMicro(*n).UTC()
}

// nameOf returns the name of a stored number, or the number if it has no name.
func nameOf[K ~int16](names map[K]string, key K) string {
	if name, ok := names[key]; ok {
		return name
	}
	return strconv.Itoa(int(key))
}

// keyOf is the inverse of nameOf.
func keyOf[K ~int16](names map[K]string, name string) (key K, ok bool) {
	for k, n := range names {
		if n == name {
			return k, true
		}
	}
	n, err := strconv.ParseInt(name, 10, 16)
	return K(n), err == nil
}
