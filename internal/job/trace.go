package job

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// Traceparent is the W3C trace context that an attempt hands to its target. It
// continues the trace of whoever triggered the run, or else is the run's own: all
// attempts of a run are in one trace, and each is a span of it. Nothing is random,
// so that an attempt which is asked about later still has the ids it was sent with.
//
// A trace that is the run's own is marked as sampled: receivers that follow their
// caller would else record nothing at all.
func (a *Attempt) Traceparent() string {
	key := a.Key.encode()
	sum := sha256.Sum256(binary.BigEndian.AppendUint16(append([]byte("span"), key[:]...), uint16(a.Number)))
	span := fmt.Sprintf("%016x", max(binary.BigEndian.Uint64(sum[:8]), 1)) // zero is no id
	if parent, ok := ParseTraceparent(a.Trace); ok {
		return parent[:36] + span + parent[52:]
	}
	sum = sha256.Sum256(append([]byte("trace"), key[:]...))
	return fmt.Sprintf("00-%016x%016x-%s-01", binary.BigEndian.Uint64(sum[:8]), max(binary.BigEndian.Uint64(sum[8:16]), 1), span)
}

// ParseTraceparent takes a traceparent of the version that is known, 00, and
// refuses one that breaks its rules: it is then as good as none.
func ParseTraceparent(text string) (string, bool) {
	part := strings.Split(text, "-")
	if len(text) != 55 || len(part) != 4 || part[0] != "00" || len(part[1]) != 32 || len(part[2]) != 16 ||
		strings.Trim(part[1], "0") == "" || strings.Trim(part[2], "0") == "" {
		return "", false
	}
	return text, strings.Trim(text, "0123456789abcdef-") == ""
}
