package secret

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

const (
	// shortest: shorter values are no secrets worth the name, and blotting them
	// out would make texts unreadable.
	shortest = 6
	blot     = "[hidden]"
)

// Forms of values are those that are long enough, also as quoted texts. The longest
// come first, so that no part of one is left when a shorter one is found in it.
func Forms(values []string) (all []string) {
	for _, s := range values {
		if len(s) < shortest {
			continue
		}
		all = append(all, s)
		if quoted := strconv.Quote(s); len(quoted) != len(s)+2 {
			all = append(all, quoted[1:len(quoted)-1])
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return slices.Compact(all)
}

// Blot makes secrets, given by their Forms, unreadable in what somebody else said:
// before anything of it is cut off here. Where that says of itself that it was cut
// off, a piece of a secret before it is blotted out however short it is.
func Blot(text string, forms []string) string {
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, blot)
	}
	least, mark := shortest, ""
	for _, m := range []string{"…", "..."} {
		if rest, cut := strings.CutSuffix(text, m); cut {
			text, least, mark = rest, 1, m
			break
		}
	}
	piece := 0 // what was read may end within a secret
	for _, form := range forms {
		for n := min(len(form)-1, len(text)); n >= max(least, piece+1); n-- {
			if strings.HasSuffix(text, form[:n]) {
				piece = n
				break
			}
		}
	}
	if piece > 0 {
		text = text[:len(text)-piece] + blot
	}
	return text + mark
}
