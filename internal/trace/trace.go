// Package trace derives the W3C trace context that an attempt passes to its target.
package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/belfry-dev/belfry/internal/job"
)

// Parent is the traceparent of an attempt. It continues the trace of the request
// that triggered the run. A run without one has a trace of its own. All attempts of a run are in one trace, and each is
// a span of it. The ids are not random, so they can be computed again later.
//
// A run's own trace is marked as sampled, because receivers that follow their caller's choice would record nothing.
func Parent(a *job.Attempt) string {
	key := a.Key.Bytes()
	sum := sha256.Sum256(binary.BigEndian.AppendUint16(append([]byte("span"), key[:]...), uint16(a.Number)))
	span := fmt.Sprintf("%016x", max(binary.BigEndian.Uint64(sum[:8]), 1)) // zero is not a valid id
	if parent, ok := Parse(a.Trace); ok {
		return parent[:36] + span + parent[52:]
	}
	sum = sha256.Sum256(append([]byte("trace"), key[:]...))
	high, low := binary.BigEndian.Uint64(sum[:8]), max(binary.BigEndian.Uint64(sum[8:16]), 1)
	return fmt.Sprintf("00-%016x%016x-%s-01", high, low, span)
}

// Parse accepts a valid traceparent of version 00. It returns false for any other.
func Parse(text string) (string, bool) {
	part := strings.Split(text, "-")
	if len(text) != 55 || len(part) != 4 || part[0] != "00" || len(part[1]) != 32 || len(part[2]) != 16 ||
		strings.Trim(part[1], "0") == "" || strings.Trim(part[2], "0") == "" {
		return "", false
	}
	if strings.Trim(text, "0123456789abcdef-") != "" {
		return "", false
	}
	return text, true
}
