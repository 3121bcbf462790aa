package trace

import (
	"encoding/binary"

	"github.com/belfry-dev/belfry/internal/job"
)

// Sampler decides which runs are traced before their outcome is known. It depends on the ids alone, so all nodes with
// the same settings decide alike.
type Sampler struct {
	bound  uint64 // of the lower 63 bits of a trace id, as in OpenTelemetry
	parent bool   // follow the decision of the caller that triggered a run
}

// NewSampler samples a share of all traces. With parent, runs that a caller triggered follow the caller's decision.
func NewSampler(ratio float64, parent bool) Sampler {
	switch {
	case ratio >= 1:
		return Sampler{1 << 63, parent}
	case !(ratio > 0): // also true for NaN
		return Sampler{0, parent}
	}
	return Sampler{uint64(ratio * (1 << 63)), parent}
}

// Sampled reports whether a run is sampled. trigger is the traceparent of the request that triggered it, or empty.
func (s Sampler) Sampled(key job.Key, trigger string) bool {
	if _, sampled, ok := Trigger(trigger); ok && s.parent {
		return sampled
	}
	id := Of(key, trigger)
	return binary.BigEndian.Uint64(id[8:])>>1 < s.bound
}
