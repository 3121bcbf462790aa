package archive

import (
	"encoding/binary"
	"errors"

	"github.com/google/uuid"
)

// maxAttempts bounds what a broken length can allocate. Attempts are numbered by 16 bits.
const maxAttempts = 1 << 16

// Parse reads what Append appends.
func (r *Run) Parse(b []byte) error {
	in := reader{b: b}
	*r = Run{
		Job: in.id(), DueAt: in.number(), Seq: int32(in.number()), EndedAt: in.number(), RunAt: in.number(),
		Count: in.number(), Partition: int32(in.number()), Version: int32(in.number()), Attempt: int32(in.number()),
		Code: int32(in.number()), StartedAt: in.optional(), DueTo: in.optional(), Session: in.id(), Status: in.text(),
		Origin: in.text(), JobName: in.text(), Queue: in.text(), Labels: in.text(), Reason: in.text(),
		Message: in.text(), Result: in.text(), IdempotencyKey: in.text(), Trace: in.text(),
	}
	for n := in.length(maxAttempts); n > 0; n-- {
		r.Attempts = append(r.Attempts, Attempt{
			Number: in.short(), Code: in.short(), StartedAt: in.optional(), EndedAt: in.optional(), Session: in.id(),
			Outcome: in.text(), Message: in.text(), Node: in.text(), Worker: in.byte() == 1,
		})
	}
	return in.end()
}

var errCut = errors.New("a row is cut short or too long")

// reader reads the bytes of a row. After an error it returns zeros, and end returns the error.
type reader struct {
	b      []byte
	failed bool
}

var zeros [16]byte

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.failed = nil, true
		return zeros[:min(n, len(zeros))]
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) id() uuid.UUID { return uuid.UUID(r.take(16)) }
func (r *reader) number() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) short() int32  { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) byte() byte    { return r.take(1)[0] }

func (r *reader) optional() *int64 {
	if r.byte() == 0 {
		return nil
	}
	n := r.number()
	return &n
}

func (r *reader) length(limit int) int {
	n, read := binary.Uvarint(r.b)
	if read <= 0 || n > uint64(limit) {
		r.b, r.failed = nil, true
		return 0
	}
	r.b = r.b[read:]
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.length(len(r.b)))) }

func (r *reader) end() error {
	if r.failed || len(r.b) > 0 {
		return errCut
	}
	return nil
}
