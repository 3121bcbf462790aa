package share

import (
	"cmp"
	"maps"
	"slices"
)

// Over returns those who have their part of what there is for all. Who needs less than an equal part leaves the rest of it
// to the others, so one that is alone may have everything. It returns no one while there is enough.
func Over[K comparable](used map[K]int, all int) []K {
	by := slices.SortedFunc(maps.Keys(used), func(x, y K) int { return cmp.Compare(used[x], used[y]) })
	for i, k := range by {
		if used[k]*(len(by)-i) >= all {
			return by[i:]
		}
		all -= used[k]
	}
	return nil
}
