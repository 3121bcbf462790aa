package postgres

import (
	"context"
	"slices"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// An index of trigrams finds parts of names that few jobs have. Row-level
// security would keep it from being used: its operators might tell of rows that
// they only looked at. So this one statement works as the engine, names the
// namespace itself, and returns ids alone; jobs are always read as the API.
// The settings leave no other way than through that index.
const (
	onlyBitmaps = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true), ` + customPlans + `, ` + briefly
	searchNames = `SELECT s.id FROM job s WHERE s.namespace_id = @namespace AND s.id > @after AND s.name ILIKE @name AND` + matches + `LIMIT @found`
)

// search finds the jobs behind a mark that match, in the order of ids. all: they
// are no more than most. Otherwise, or if it took too long, or there is no such
// index, it was of no use: what many jobs have is better scanned for.
func (l *listing) search(ctx context.Context, most int) (ids []uuid.UUID, all bool, err error) {
	var indexed bool
	if err := l.pool.QueryRow(ctx, `SELECT to_regclass('job_name_part') IS NOT NULL`).Scan(&indexed); err != nil || !indexed {
		return nil, false, err
	}
	l.args["found"] = most + 1
	var batch pgx.Batch
	batch.Queue(onlyBitmaps)
	batch.Queue(searchNames, l.args).Query(collectIDs(&ids))
	if err := l.pool.SendBatch(ctx, &batch).Close(); gaveUp(ctx, err) {
		return nil, false, nil
	} else if err != nil {
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
