package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Report is the right to report the outcome of one attempt of a run. The attempt carries it to the target as a token,
// and the token allows nothing else. Tokens are not stored: the cluster's report key signs them.
type Report struct {
	Namespace uuid.UUID
	Key       job.Key
	Session   uuid.UUID // of the node that delivered the attempt
	Attempt   int16
	Until     time.Time // when the token expires, in whole seconds
}

// ReportLife is how long after the run time a token can be used, however many heartbeats the target sends.
const ReportLife = 30 * 24 * time.Hour

// ReportOf is the right that goes out with an attempt.
func ReportOf(a job.Attempt) Report {
	until := a.RunAt.Add(ReportLife).Truncate(time.Second).UTC()
	return Report{Namespace: a.Namespace, Key: a.Key, Session: a.Session, Attempt: a.Number, Until: until}
}

const (
	// ReportPrefix is how the token of a report begins.
	ReportPrefix = "bfr_"

	reportBytes = 16 + job.KeyBytes + 16 + 2 + 8
)

// The errors of a report.
var (
	// ErrBadReport says that a string is not a report token of this cluster.
	ErrBadReport = errors.New("not a report token")
	// ErrReportExpired says that a token was used too late.
	ErrReportExpired = errors.New("the report token has expired")
)

// Token is the right as a string, signed with the cluster's report key.
func (r Report) Token(key []byte) string {
	b := make([]byte, 0, reportBytes+sha256.Size)
	run := r.Key.Bytes()
	b = append(append(append(b, r.Namespace[:]...), run[:]...), r.Session[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Attempt))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Until.Unix()))
	return ReportPrefix + job.Alphabet.EncodeToString(append(b, reportSum(key, b)...))
}

// Token is the right as a string, signed with the key that signs now.
func (k ReportKeys) Token(r Report) string { return r.Token(k.First()) }

// Parse reads a token that one of the keys has signed. It compares signatures in constant time.
func (k ReportKeys) Parse(token string) (r Report, err error) {
	err = ErrBadReport
	for i := 0; i < len(k) && err != nil; i++ {
		r, err = ParseReport(k[i], token)
	}
	return r, err
}

// ParseReport reads a token that Token wrote with the same key. It compares signatures in constant time.
func ParseReport(key []byte, token string) (Report, error) {
	var b [reportBytes + sha256.Size]byte
	if len(key) == 0 || !job.DecodeID(token, ReportPrefix, b[:]) ||
		!hmac.Equal(b[reportBytes:], reportSum(key, b[:reportBytes])) {
		return Report{}, ErrBadReport
	}
	run, ok := job.KeyFromBytes([job.KeyBytes]byte(b[16:]))
	if !ok {
		return Report{}, ErrBadReport
	}
	rest := b[16+job.KeyBytes:]
	return Report{
		Namespace: uuid.UUID(b[:16]), Key: run, Session: uuid.UUID(rest[:16]),
		Attempt: int16(binary.BigEndian.Uint16(rest[16:])),
		Until:   time.Unix(int64(binary.BigEndian.Uint64(rest[18:])), 0).UTC(),
	}, nil
}

func reportSum(key, b []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte("belfry report 2 "))
	m.Write(b)
	return m.Sum(nil)
}
