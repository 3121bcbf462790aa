package job

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// Partitions is the number of partitions that jobs are spread over.
const Partitions = 256

// PartitionOf is the partition of a job: the first byte of the SHA-256 of its id. It is stored and must never change.
// The id's own first bytes would not do: in a version 7 id they are the time, so all jobs of a day would share a
// partition. In SQL it is get_byte(sha256(uuid_send(id)), 0).
func PartitionOf(id uuid.UUID) int16 {
	sum := sha256.Sum256(id[:])
	return int16(sum[0])
}

// ErrBadID says that a string is not a public id.
var ErrBadID = errors.New("job: not an id")

const (
	jobPrefix       = "job_"
	runPrefix       = "run_"
	operationPrefix = "op_"
)

// Alphabet keeps the order of the bytes that it encodes. It needs no escaping in a URL, a shell or a file name, even
// where case is lost.
var Alphabet = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// FormatJobID is the public id of a job: "job_" and 26 characters.
func FormatJobID(id uuid.UUID) string { return jobPrefix + Alphabet.EncodeToString(id[:]) }

// ParseJobID reads exactly what FormatJobID writes.
func ParseJobID(s string) (uuid.UUID, error) { return ParseID(s, jobPrefix, "a job") }

// FormatOperationID is the public id of an operation.
func FormatOperationID(id uuid.UUID) string { return operationPrefix + Alphabet.EncodeToString(id[:]) }

// ParseOperationID reads exactly what FormatOperationID writes.
func ParseOperationID(s string) (uuid.UUID, error) {
	return ParseID(s, operationPrefix, "an operation")
}

// ParseID reads a public id that is a prefix and an encoded UUID. The error says what the id should be of.
func ParseID(s, prefix, of string) (uuid.UUID, error) {
	var id uuid.UUID
	if !DecodeID(s, prefix, id[:]) {
		return uuid.UUID{}, fmt.Errorf("%w of %s: %s", ErrBadID, of, problem.Quote(s))
	}
	return id, nil
}

// A key has 25 bytes: job (16), due time (7) and sequence (2). These are 200 bits, exactly 40 characters. Seven bytes
// of microseconds around 1970 reach from the year 829 to 3111.
const (
	KeyBytes = 16 + 7 + 2
	dueBias  = 1 << 55
)

// Bytes is the key as bytes that sort by job, then due time, then sequence.
func (k Key) Bytes() [KeyBytes]byte {
	var b [KeyBytes]byte
	due := min(max(k.DueAt.UnixMicro(), -dueBias), dueBias-1) + dueBias
	binary.BigEndian.PutUint64(b[16:], uint64(due)<<8)
	copy(b[:], k.Job[:])
	binary.BigEndian.PutUint16(b[23:], uint16(k.Seq))
	return b
}

// KeyFromBytes reads what Key.Bytes writes. It returns false for a negative sequence, which no run has.
func KeyFromBytes(b [KeyBytes]byte) (Key, bool) {
	k := Key{Job: uuid.UUID(b[:16]), Seq: int16(binary.BigEndian.Uint16(b[23:]))}
	due := int64(binary.BigEndian.Uint64(b[16:])>>8) - dueBias
	k.DueAt = time.UnixMicro(due).UTC()
	k.Partition = PartitionOf(k.Job)
	return k, k.Seq >= 0
}

// FormatRunID is the public id of a run: "run_" and 40 characters. It encodes the key, so any node can find the run
// from its id alone. Ids sort by job, then by due time.
func FormatRunID(k Key) string {
	b := k.Bytes()
	return runPrefix + Alphabet.EncodeToString(b[:])
}

// ParseRunID reads exactly what FormatRunID writes.
func ParseRunID(s string) (Key, error) {
	var b [KeyBytes]byte
	if DecodeID(s, runPrefix, b[:]) {
		if k, ok := KeyFromBytes(b); ok {
			return k, nil
		}
	}
	return Key{}, fmt.Errorf("%w of a run: %s", ErrBadID, problem.Quote(s))
}

// DecodeID decodes a string with a prefix into a buffer. It accepts one spelling only: a second spelling of an id would
// be a second cache key, idempotency key and log search.
func DecodeID(s, prefix string, to []byte) bool {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok || len(text) != Alphabet.EncodedLen(len(to)) {
		return false
	}
	// The decoder ignores line breaks, so it may return fewer bytes.
	if n, err := Alphabet.Decode(to, []byte(text)); err != nil || n != len(to) {
		return false
	}
	return Alphabet.EncodeToString(to) == text
}
