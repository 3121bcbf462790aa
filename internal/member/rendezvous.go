package member

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Assign returns which session should own each partition: the one with the highest weight there that is
// not full. Weights depend only on session and partition, so all nodes agree, and a session that joins or
// leaves moves hardly more than its own share. A session is full at a quarter above the mean: weights
// alone would give one of ten sessions half as much again as another.
//
// A partition with needs goes to a session that has all of them, even if that one is full. If no session has, it is
// assigned as if it had none.
//
// Without sessions, all are uuid.Nil. The order of the sessions does not matter.
func Assign(sessions []job.Session, partitions []job.Ownership, needs map[int16][]string) []uuid.UUID {
	out := make([]uuid.UUID, len(partitions))
	sessions = slices.Clone(sessions)
	slices.SortFunc(sessions, func(a, b job.Session) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	sessions = slices.CompactFunc(sessions, func(a, b job.Session) bool { return a.ID == b.ID })
	if len(sessions) == 0 {
		return out
	}
	full := (5*len(partitions) + 4*len(sessions) - 1) / (4 * len(sessions))
	owned := make([]int, len(sessions))
	for i, p := range partitions {
		kinds := needs[p.Partition]
		able := len(kinds) > 0 && slices.ContainsFunc(sessions, func(s job.Session) bool { return has(s, kinds) })
		best, highest := -1, uint64(0)
		for j := range sessions {
			if able && !has(sessions[j], kinds) || !able && owned[j] >= full {
				continue
			}
			if w := weight(sessions[j].ID, int(p.Partition)); best < 0 || w > highest {
				best, highest = j, w
			}
		}
		out[i] = sessions[best].ID // never all full: together they have more capacity than there are partitions
		owned[best]++
	}
	return out
}

// has returns whether a session has all kinds of targets that a partition needs.
func has(s job.Session, kinds []string) bool {
	return !slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(s.Kinds, k) })
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
