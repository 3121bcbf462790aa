package config

import (
	"maps"
	"slices"
)

// suggestion names the setting that was probably meant.
func suggestion(key string) string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	if near := Nearest(key, keys); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; belfry config example lists them all"
}

// Nearest is the one of some names that was probably meant by another; empty if
// none is near.
func Nearest(name string, names []string) string {
	known := map[string]string{}
	for _, n := range names {
		known[n] = n
	}
	return nearest(name, known, max(2, len(name)/3))
}

// nearest is the name that is the fewest edits away, at most so many; empty if
// there is none.
func nearest(name string, names map[string]string, most int) (best string) {
	if len(name) > 100 {
		return ""
	}
	for _, candidate := range slices.Sorted(maps.Keys(names)) {
		if d := distance(name, candidate); d <= most {
			best, most = candidate, d-1
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
