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

// Nearest returns the one of names that a user probably meant by name, empty if none is near.
func Nearest(name string, names []string) string {
	known := map[string]string{}
	for _, n := range names {
		known[n] = n
	}
	return nearest(name, known, max(2, len(name)/3))
}

// nearest returns the name with the fewest edits, at limit a limit. It is empty if there is none.
func nearest(name string, names map[string]string, limit int) (best string) {
	if len(name) > 100 {
		return ""
	}
	for _, candidate := range slices.Sorted(maps.Keys(names)) {
		if d := distance(name, candidate); d <= limit {
			best, limit = candidate, d-1
		}
	}
	return best
}

// distance is the number of letters to insert, delete or change.
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
