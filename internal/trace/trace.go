// Package trace derives the W3C trace context of runs. Ids are hashes of the key of a run, so every node computes the
// same ones, after any crash, and nothing is stored.
package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/belfry-dev/belfry/internal/job"
)

// ID identifies a trace.
type ID [16]byte

// SpanID identifies a span within a trace.
type SpanID [8]byte

// String is the id as traceparent has it.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// String is the id as traceparent has it.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Parent is the traceparent of an attempt. It continues the trace of the request
// that triggered the run. A run without one has a trace of its own. All attempts of a run are in one trace, and each is
// a span of it.
//
// A run's own trace is marked as sampled unless the node has decided otherwise, because receivers that follow their
// caller's choice would record nothing.
func Parent(a *job.Attempt) string {
	span := CallSpan(a.Key, a.Number)
	if !Calls(a.Kind) {
		span = DeliverSpan(a.Key, a.Number)
	}
	if parent, ok := Parse(a.Trace); ok {
		return parent[:36] + span.String() + parent[52:]
	}
	flags := "01"
	if a.Unsampled {
		flags = "00"
	}
	return fmt.Sprintf("00-%s-%s-%s", Of(a.Key, ""), span, flags)
}

// Calls reports whether an attempt with this kind of target has a span for the call to its target. The spans of workers
// are children of the attempt itself.
func Calls(kind string) bool { return kind != "worker" && kind != "noop" }

// Of is the trace of a run: that of the request that triggered it, or its own.
func Of(key job.Key, trigger string) (id ID) {
	if parent, ok := Parse(trigger); ok {
		_, _ = hex.Decode(id[:], []byte(parent[3:35])) // Parse has checked it
		return id
	}
	sum := derive("trace", key, nil)
	copy(id[:], sum[:16])
	if binary.BigEndian.Uint64(id[8:]) == 0 { // not a valid id
		id[15] = 1
	}
	return id
}

// Trigger returns the span of the request that triggered a run, and whether the caller samples it.
func Trigger(trigger string) (parent SpanID, sampled, ok bool) {
	text, ok := Parse(trigger)
	if !ok {
		return parent, false, false
	}
	_, _ = hex.Decode(parent[:], []byte(text[36:52])) // Parse has checked it
	var flags [1]byte
	_, _ = hex.Decode(flags[:], []byte(text[53:]))
	return parent, flags[0]&1 != 0, true
}

// RunSpan is the span of a run that ended with an attempt. A run that is redriven ends once more, with a later one.
func RunSpan(key job.Key, attempt int16) SpanID { return spanID("run", key, attempt) }

// DeliverSpan is the span of an attempt.
func DeliverSpan(key job.Key, attempt int16) SpanID { return spanID("deliver", key, attempt) }

// CallSpan is the span of the call to the target of an attempt.
func CallSpan(key job.Key, attempt int16) SpanID { return spanID("span", key, attempt) }

func spanID(name string, key job.Key, attempt int16) (id SpanID) {
	sum := derive(name, key, binary.BigEndian.AppendUint16(nil, uint16(attempt)))
	copy(id[:], sum[:8])
	if id == (SpanID{}) { // not a valid id
		id[7] = 1
	}
	return id
}

func derive(name string, key job.Key, more []byte) [sha256.Size]byte {
	b := key.Bytes()
	text := make([]byte, 0, len(name)+len(b)+len(more))
	return sha256.Sum256(append(append(append(text, name...), b[:]...), more...))
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
