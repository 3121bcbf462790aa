package postgres

import (
	"context"
	"slices"
	"unicode"

	"github.com/google/uuid"
)

// search finds the jobs behind a mark that match, in the order of ids. all: they
// are no more than most. Otherwise, or if it took too long, or there is no such
// index, it was of no use: what many jobs have is better scanned for.
func (l *listing) search(ctx context.Context, most int) (ids []uuid.UUID, all bool, err error) {
	l.args["found"] = most + 1
	ids, indexed, err := l.index.names(ctx, l.args)
	if gaveUp(ctx, err) {
		return nil, false, nil
	}
	if err != nil || !indexed {
		return nil, false, err
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return ids, len(ids) <= most, nil
}

// hasTrigram says that a text has three letters or digits in a row, which the
// index is made of.
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
