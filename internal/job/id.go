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
)

// Partitions is the number of slices that jobs are spread over.
const Partitions = 256

// PartitionOf is the slice of a job: the first byte of the SHA-256 of its id.
// It is stored, and must never change. The id's own bytes would not do: the
// first ones of a version 7 id are the time, so that all jobs of a day would be
// neighbours. SQL can compute it too: get_byte(sha256(uuid_send(id)), 0).
func PartitionOf(id uuid.UUID) int16 {
	sum := sha256.Sum256(id[:])
	return int16(sum[0])
}

// ErrBadID says that a text is not the public id of anything.
var ErrBadID = errors.New("job: not an id")

const (
	jobPrefix = "job_"
	runPrefix = "run_"
	keyIDs    = "key_"
	operIDs   = "op_"
)

// Alphabet keeps the order of the bytes that it encodes, and needs no escaping
// in a URL, a shell or a file name, also where case is lost.
var Alphabet = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// FormatJobID is the public id of a job: "job_" and 26 characters.
func FormatJobID(id uuid.UUID) string { return jobPrefix + Alphabet.EncodeToString(id[:]) }

// ParseJobID reads what FormatJobID writes, and nothing else.
func ParseJobID(s string) (uuid.UUID, error) {
	var id uuid.UUID
	if !DecodeID(s, jobPrefix, id[:]) {
		return uuid.UUID{}, fmt.Errorf("%w of a job: %s", ErrBadID, Quote(s))
	}
	return id, nil
}

// FormatKeyID is the public id of an API key, which is no secret.
func FormatKeyID(id uuid.UUID) string { return keyIDs + Alphabet.EncodeToString(id[:]) }

// ParseKeyID reads what FormatKeyID writes, and nothing else.
func ParseKeyID(s string) (uuid.UUID, error) {
	var id uuid.UUID
	if !DecodeID(s, keyIDs, id[:]) {
		return uuid.UUID{}, fmt.Errorf("%w of a key: %s", ErrBadID, Quote(s))
	}
	return id, nil
}

// FormatOperationID is the public id of an operation.
func FormatOperationID(id uuid.UUID) string { return operIDs + Alphabet.EncodeToString(id[:]) }

// ParseOperationID reads what FormatOperationID writes, and nothing else.
func ParseOperationID(s string) (uuid.UUID, error) {
	var id uuid.UUID
	if !DecodeID(s, operIDs, id[:]) {
		return uuid.UUID{}, fmt.Errorf("%w of an operation: %s", ErrBadID, Quote(s))
	}
	return id, nil
}

// A key is encoded as job (16 bytes), due time (7) and sequence (2): 200 bits,
// which are 40 characters with none to spare. Seven bytes of microseconds
// around 1970 reach from the year 829 to 3111.
const (
	keyBytes = 16 + 7 + 2
	dueBias  = 1 << 55
)

// encode is the key as bytes that sort by job, then due time, then sequence.
func (k Key) encode() [keyBytes]byte {
	var b [keyBytes]byte
	due := min(max(k.DueAt.UnixMicro(), -dueBias), dueBias-1) + dueBias
	binary.BigEndian.PutUint64(b[16:], uint64(due)<<8)
	copy(b[:], k.Job[:])
	binary.BigEndian.PutUint16(b[23:], uint16(k.Seq))
	return b
}

// FormatRunID is the public id of a run: "run_" and 40 characters. It is the
// key itself, so any node can find the run from its id alone; ids sort by job,
// then by due time.
func FormatRunID(k Key) string {
	b := k.encode()
	return runPrefix + Alphabet.EncodeToString(b[:])
}

// ParseRunID reads what FormatRunID writes, and nothing else.
func ParseRunID(s string) (Key, error) {
	var b [keyBytes]byte
	if !DecodeID(s, runPrefix, b[:]) || b[23] > 0x7f {
		return Key{}, fmt.Errorf("%w of a run: %s", ErrBadID, Quote(s))
	}
	k := Key{Job: uuid.UUID(b[:16]), Seq: int16(binary.BigEndian.Uint16(b[23:]))}
	due := int64(binary.BigEndian.Uint64(b[16:])>>8) - dueBias
	k.DueAt = time.UnixMicro(due).UTC()
	k.Partition = PartitionOf(k.Job)
	return k, nil
}

// DecodeID fills to from a text with a prefix. It refuses any text but the one
// that encodes the same bytes: two spellings of an id would be two cache keys,
// two idempotency keys, two log searches.
func DecodeID(s, prefix string, to []byte) bool {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok || len(text) != Alphabet.EncodedLen(len(to)) {
		return false
	}
	// The encoding leaves out line breaks, so fewer bytes may come out.
	if n, err := Alphabet.Decode(to, []byte(text)); err != nil || n != len(to) {
		return false
	}
	return Alphabet.EncodeToString(to) == text
}
