package member

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"
)

// Assign returns which session should own each partition: the one with the highest weight there that is
// not full. Weights depend only on session and partition, so all nodes agree, and a session that joins or
// leaves moves hardly more than its own share. A session is full at a quarter above the mean: weights
// alone would give one of ten sessions half as much again as another.
//
// Without sessions, all are uuid.Nil. The order of the sessions does not matter.
func Assign(sessions []uuid.UUID, partitions int) []uuid.UUID {
	out := make([]uuid.UUID, partitions)
	sessions = slices.Clone(sessions)
	slices.SortFunc(sessions, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	sessions = slices.Compact(sessions)
	if len(sessions) == 0 {
		return out
	}
	full := (5*partitions + 4*len(sessions) - 1) / (4 * len(sessions))
	owned := make([]int, len(sessions))
	for p := range out {
		best, highest := -1, uint64(0)
		for i := range sessions {
			if owned[i] >= full {
				continue
			}
			if w := weight(sessions[i], p); best < 0 || w > highest {
				best, highest = i, w
			}
		}
		out[p] = sessions[best] // never all full: together they have more capacity than there are partitions
		owned[best]++
	}
	return out
}

// weight must never change: nodes of two versions that disagree would take partitions from each other
// forever.
func weight(session uuid.UUID, partition int) uint64 {
	h := mix(binary.BigEndian.Uint64(session[:8]))
	h = mix(h ^ binary.BigEndian.Uint64(session[8:]))
	return mix(h ^ uint64(partition))
}

// mix is a step of SplitMix64: each bit of x changes each bit of the result with probability one half.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
