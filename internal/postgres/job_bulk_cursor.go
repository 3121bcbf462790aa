package postgres

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
)

const insertQueues = `
INSERT INTO queue (namespace_id, name) SELECT $1, n FROM unnest($2::text[]) n ON CONFLICT DO NOTHING`

// findQueues finds or creates queues, and returns how many it has created. It creates none if a quota does not allow the
// queues, or what else the transaction adds. Call it before locking a cursor: it may wait for another transaction that
// creates the same queue, and that one may wait for the cursor.
func findQueues(
	ctx context.Context, tx pgx.Tx, namespace uuid.UUID, names []string, adds additions,
) (found map[string]int32, created int64, err error) {
	slices.Sort(names) // two transactions that create the same queues do so in one order
	names = slices.Compact(names)
	for try := 0; ; try++ {
		rows, err := tx.Query(
			ctx, `SELECT name, id FROM queue WHERE namespace_id = $1 AND name = ANY ($2)`, namespace, names,
		)
		if err != nil {
			return nil, 0, err
		}
		found = make(map[string]int32, len(names))
		var name string
		var id int32
		_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error { found[name] = id; return nil })
		switch {
		case err != nil || len(found) == len(names):
			return found, created, err
		case try > 0:
			return nil, 0, errMoved
		}
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := found[name]; return ok })
		all := additions{access.CapQueues: int64(len(missing))}
		maps.Copy(all, adds)
		if err := all.refuse(ctx, tx, namespace); err != nil {
			return nil, 0, err
		}
		tag, err := tx.Exec(ctx, insertQueues, namespace, missing)
		if err != nil {
			return nil, 0, err
		}
		created = tag.RowsAffected()
	}
}

// cursorAt names a cursor of the namespace.
type cursorAt struct {
	partition int16
	key       [32]byte
}

// compare is the order in which all transactions insert cursors, so that they do not wait for each other.
func (k cursorAt) compare(other cursorAt) int {
	return cmp.Or(cmp.Compare(k.partition, other.partition), bytes.Compare(k.key[:], other.key[:]))
}

const lockCursorsByKey = `
SELECT c.partition, c.key, c.id, c.next_due_at, c.after_job
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bytea[]) AS key) k
JOIN cursor c ON c.partition = k.partition AND c.namespace_id = $3 AND c.key = k.key
ORDER BY c.partition, c.id FOR UPDATE OF c`

const insertCursors = `
INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at)
SELECT k.partition, $3, k.key, k.schedule, k.missed, k.next_due_at
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bytea[]) AS key, unnest($4::text[]) AS schedule,
             unnest($5::text[]) AS missed, unnest($6::timestamptz[]) AS next_due_at) k
ON CONFLICT DO NOTHING
RETURNING partition, key, id, next_due_at, after_job`

// joinCursors locks the cursors of all jobs, reads the clock, and creates the cursors that do not exist. Before it writes
// anything, it refuses what a quota does not allow now: 1,000 jobs would be inserted in vain.
func (c *creation) joinCursors(ctx context.Context) error {
	wanted := map[cursorAt]*definition{}
	for _, n := range c.jobs {
		wanted[n.cursorAt()] = n.definition
	}
	found := make(map[cursorAt]cursor, len(wanted))
	collect := func(rows pgx.Rows) error { return collectCursors(rows, found) }
	k := cursorKeys(wanted, found)
	var batch pgx.Batch
	batch.Queue(lockCursorsByKey, k.partition, k.key, c.namespace).Query(collect)
	batch.Queue(readClock).QueryRow(func(row pgx.Row) error { return row.Scan(&c.now) })
	c.adds.read(&batch, c.namespace, &c.quotas)
	if err := c.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if err := exceeded(c.quotas); err != nil {
		return err
	}
	c.now = c.now.UTC()
	if len(found) < len(wanted) {
		k := cursorKeys(wanted, found)
		for _, d := range k.definition {
			next, err := c.store.firstDue(d, c.now)
			if err != nil {
				return err
			}
			k.schedule = append(k.schedule, d.shared)
			k.missed = append(k.missed, d.missed)
			k.next = append(k.next, next)
		}
		rows, err := c.tx.Query(ctx, insertCursors, k.partition, k.key, c.namespace, k.schedule, k.missed, k.next)
		if err != nil {
			return err
		}
		if err := collect(rows); err != nil {
			return err
		}
	}
	if len(found) < len(wanted) {
		return errMoved // another transaction created one first
	}
	for _, n := range c.jobs {
		n.cursor = found[n.cursorAt()].of(n.job.ID)
	}
	return nil
}

func (n *newJob) cursorAt() cursorAt { return cursorAt{n.job.Partition, [32]byte(n.definition.key)} }

// cursorColumns are cursors as the arrays that statements take.
type cursorColumns struct {
	partition  []int16
	key        [][]byte
	definition []*definition
	schedule   []string
	missed     []string
	next       []*time.Time
}

// cursorKeys lists the cursors that are wanted and not found yet, in the order of compare.
func cursorKeys(wanted map[cursorAt]*definition, found map[cursorAt]cursor) (k cursorColumns) {
	var missing []cursorAt
	for at := range wanted {
		if _, ok := found[at]; !ok {
			missing = append(missing, at)
		}
	}
	slices.SortFunc(missing, cursorAt.compare)
	for i := range missing {
		k.partition, k.key = append(k.partition, missing[i].partition), append(k.key, missing[i].key[:])
		k.definition = append(k.definition, wanted[missing[i]])
	}
	return k
}

func collectCursors(rows pgx.Rows, into map[cursorAt]cursor) error {
	var partition int16
	var key []byte
	var c cursor
	_, err := pgx.ForEachRow(rows, []any{&partition, &key, &c.id, &c.next, &c.after}, func() error {
		into[cursorAt{partition, [32]byte(key)}] = c
		c.next, c.after = nil, nil // the next row must not share them
		return nil
	})
	return err
}
