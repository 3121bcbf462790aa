package postgres

import (
	"context"
	"slices"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// An index of trigrams finds parts of names that few jobs have. Row-level
// security would keep it from being used: its operators might tell of rows that
// they only looked at. So this one statement works as the engine, names the
// namespace itself, and returns ids alone; jobs are always read as the API.
// The settings leave no other way than through that index.
const (
	onlyBitmaps = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true), ` + customPlans
	searchNames = `SELECT s.id FROM job s WHERE s.namespace_id = @namespace AND s.id > @after AND s.name ILIKE @name AND` + matches + `LIMIT @found`
)

// byName goes on where a scan ended before the page was full. If too many jobs
// match to be sorted, or there is no such index, the page stays short.
func (l *listing) byName(ctx context.Context, ids []uuid.UUID, next *job.ListMark) ([]uuid.UUID, *job.ListMark, error) {
	if !hasTrigram(l.order.Name) {
		return ids, next, nil
	}
	var more []uuid.UUID
	l.args["after"], l.args["found"] = next.ID, maxFound+1
	var indexed bool
	if err := l.pool.QueryRow(ctx, `SELECT to_regclass('job_name_part') IS NOT NULL`).Scan(&indexed); err != nil || !indexed {
		return ids, next, err
	}
	var batch pgx.Batch
	batch.Queue(onlyBitmaps)
	batch.Queue(searchNames, l.args).Query(collectIDs(&more))
	if err := l.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, nil, err
	}
	if len(more) > maxFound {
		return ids, next, nil
	}
	slices.SortFunc(more, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	ids = append(ids, more...)
	if len(ids) <= l.order.Limit {
		return ids, nil, nil
	}
	ids = ids[:l.order.Limit]
	return ids, &job.ListMark{ID: ids[len(ids)-1]}, nil
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
