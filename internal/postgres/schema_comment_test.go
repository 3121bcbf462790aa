package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// Partitions are described by their parent, and the tables of the migration tool by that tool.
const uncommented = `
SELECT 'relation ' || relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'i', 'I', 'S') AND NOT relispartition
  AND NOT starts_with(relname, 'belfry_migration') AND obj_description(oid, 'pg_class') IS NULL
UNION ALL
SELECT 'function ' || proname FROM pg_proc
WHERE pronamespace = 'public'::regnamespace AND starts_with(proname, 'belfry_')
  AND obj_description(oid, 'pg_proc') IS NULL
ORDER BY 1`

// TestEveryTableAndIndexHasAComment: docs/reference/schema.md is generated from them.
func TestEveryTableAndIndexHasAComment(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	rows, err := pool.Query(t.Context(), uncommented)
	require.NoError(t, err)
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, missing, "add COMMENT ON … IS …; of an index, say which statement uses it")
}

// codes are the smallint columns with codes, and the name of each code.
var codes = map[string][]string{
	"job.state": {
		fmt.Sprintf("%d active", job.Active), fmt.Sprintf("%d paused", job.Paused),
		fmt.Sprintf("%d finished", job.Finished),
	},
	"job.admit":  admitCodes,
	"run.admit":  admitCodes,
	"run.origin": originCodes,
	"cursor.after_origin": {
		fmt.Sprintf("%d schedule", job.FromSchedule), fmt.Sprintf("%d missed", job.FromMissed),
	},
	"run_history.origin": originCodes,
	"run.state": {
		fmt.Sprintf("%d pending", job.Pending), fmt.Sprintf("%d running", job.Running),
		fmt.Sprintf("%d waiting", job.Waiting),
	},
	"run_history.ended": endedCodes,
	"permit.limit_kind": {
		fmt.Sprintf("%d queue", job.LimitQueue), fmt.Sprintf("%d concurrency key", job.LimitKey),
	},
}

var (
	endedCodes = []string{
		fmt.Sprintf("%d succeeded", job.EndedSucceeded), fmt.Sprintf("%d failed", job.EndedFailed),
		fmt.Sprintf("%d cancelled", job.EndedCancelled), fmt.Sprintf("%d skipped", job.EndedSkipped),
	}
	admitCodes  = []string{"0 nothing,", "1 that no other", "3 that none", "4 the deadline"}
	originCodes = []string{
		fmt.Sprintf("%d schedule", job.FromSchedule), fmt.Sprintf("%d trigger", job.FromTrigger),
		fmt.Sprintf("%d backfill", job.FromBackfill), fmt.Sprintf("%d missed", job.FromMissed),
		fmt.Sprintf("%d redrive", job.FromRedrive),
	}
)

// numbers are the smallint columns with plain numbers.
var numbers = []string{
	"partition", "seq", "attempt", "attempt_base", "priority", "free_attempts", "percent", "status", "part",
	"failures", "audit_failures", "id",
}

// TestEveryCodeIsExplained: a column of codes says in its comment what each code means.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	rows, err := pool.Query(t.Context(), `
SELECT c.relname, a.attname, coalesce(col_description(c.oid, a.attnum), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND NOT starts_with(c.relname, 'belfry_migration') AND a.atttypid = 'smallint'::regtype AND a.attnum > 0`)
	require.NoError(t, err)
	found := map[string]string{}
	var table, column, comment string
	_, err = pgx.ForEachRow(rows, []any{&table, &column, &comment}, func() error {
		name := table + "." + column
		if _, ok := codes[name]; !ok {
			require.Contains(t, numbers, column, "%s: if it holds codes, add it to codes", name)
			return nil
		}
		found[name] = comment
		return nil
	})
	require.NoError(t, err)
	for name, all := range codes {
		require.Contains(t, found, name)
		for _, code := range all {
			require.Contains(t, found[name], code, name)
		}
	}
}
