package job

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Report is the right to say what one attempt of a run came to. Its token goes out
// with the attempt, and whoever has it may report on that attempt, and do nothing
// else. Nothing of it is stored: the key of the cluster proves it.
type Report struct {
	Namespace uuid.UUID
	Key       Key
	Attempt   int16
	Until     time.Time // it can be used so long, in whole seconds
}

// ReportLife is how long after the time of its run a token can be used at most,
// however often its holder gives a sign of life.
const ReportLife = 30 * 24 * time.Hour

// ReportOf is the right that goes out with an attempt.
func ReportOf(a Attempt) Report {
	return Report{Namespace: a.Namespace, Key: a.Key, Attempt: a.Number, Until: a.RunAt.Add(ReportLife).Truncate(time.Second).UTC()}
}

const (
	reportPrefix = "bfr_"
	reportBytes  = 16 + keyBytes + 2 + 8
)

// ErrBadReport says that a text is not a token of this cluster.
var ErrBadReport = errors.New("job: not a token for a report")

// Token is the right as a text, signed with the key of the cluster.
func (r Report) Token(key []byte) string {
	b := make([]byte, 0, reportBytes+sha256.Size)
	run := r.Key.encode()
	b = append(append(b, r.Namespace[:]...), run[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Attempt))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Until.Unix()))
	return reportPrefix + Alphabet.EncodeToString(append(b, reportSum(key, b)...))
}

// ParseReport reads what Token has written with the same key, and nothing else.
// It takes as long for a wrong signature as for a right one.
func ParseReport(key []byte, text string) (r Report, err error) {
	var b [reportBytes + sha256.Size]byte
	if len(key) == 0 || !DecodeID(text, reportPrefix, b[:]) || !hmac.Equal(b[reportBytes:], reportSum(key, b[:reportBytes])) {
		return r, ErrBadReport
	}
	if r.Key, err = ParseRunID(runPrefix + Alphabet.EncodeToString(b[16:16+keyBytes])); err != nil {
		return r, ErrBadReport
	}
	r.Namespace = uuid.UUID(b[:16])
	rest := b[16+keyBytes:]
	r.Attempt, r.Until = int16(binary.BigEndian.Uint16(rest)), time.Unix(int64(binary.BigEndian.Uint64(rest[2:])), 0).UTC()
	return r, nil
}

func reportSum(key, b []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte("belfry report 1 "))
	m.Write(b)
	return m.Sum(nil)
}

// The errors of a report.
var (
	// ErrStale says that the attempt is no longer the run's: it is over, or another
	// one has taken its place.
	ErrStale = errors.New("job: the attempt is over, or another one has taken its place")
	// ErrReportExpired says that a token was used too late.
	ErrReportExpired = errors.New("job: the token has expired")
)
