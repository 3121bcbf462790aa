package postgres

import (
	"context"
	"slices"
	"unicode"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/store"
)

// search finds the jobs after the mark that match, in the order of ids. all is false if there are more than most, if it
// took too long, or if there is no trigram index. Then the result is useless, and a scan is better.
func (l *listing) search(ctx context.Context, most int) (ids []uuid.UUID, all bool, err error) {
	l.args["found"] = most + 1
	ids, indexed, err := l.index.names(ctx, l.args)
	if store.GaveUp(ctx, err) {
		return nil, false, nil
	}
	if err != nil || !indexed {
		return nil, false, err
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return ids, len(ids) <= most, nil
}

// hasTrigram reports whether a text has three letters or digits in a row, which a search by the trigram index needs.
func hasTrigram(text string) bool {
	n := 0
	for _, r := range text {
		if n++; !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			n = 0
		}
		if n == 3 {
			return true
		}
	}
	return false
}
