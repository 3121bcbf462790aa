package store

import "strings"

// Settings are set_config calls that hold until the end of a transaction.
type Settings string

// The settings that statements ask for.
const (
	// KeyLookups keeps PostgreSQL from scanning or hashing a table where a hot
	// statement looks rows up by key. The statistics of the live table are wrong
	// most of the time, and believing them once costs minutes. JIT is off because
	// it costs 0.5 s for 10 ms of work.
	KeyLookups Settings = `set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
set_config('enable_mergejoin', 'off', true)`

	// HashJoin follows KeyLookups for a statement that joins the rows it changed with its parameters: a nested loop
	// would be quadratic. Lookups of keys do not change, because they are laterals with a LIMIT.
	HashJoin Settings = `set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true)`

	// OnePlan keeps the plan of a statement for all its parameters. PostgreSQL plans a claim of few runs each time,
	// which takes longer than the claim.
	OnePlan Settings = `set_config('plan_cache_mode', 'force_generic_plan', true)`

	// Lists keeps PostgreSQL to the indexes: the statistics of today's history are
	// those of an hour ago.
	Lists Settings = `set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
set_config('plan_cache_mode', 'force_custom_plan', true)`

	// NoBitmaps makes a list use the order of an index.
	NoBitmaps Settings = `set_config('enable_bitmapscan', 'off', true)`

	// InOrder keeps PostgreSQL from sorting rows that an index has in order. If it believes that a job has few rows, it
	// reads and sorts all of them to return the first.
	InOrder Settings = `set_config('enable_sort', 'off', true)`

	// LazyCommit lets a commit return before it is on disk: losing it is harmless.
	LazyCommit Settings = `set_config('synchronous_commit', 'off', true)`
)

// Timeout bounds each statement of a transaction, as in Timeout("1s").
func Timeout(limit string) Settings {
	return Settings(`set_config('statement_timeout', '` + limit + `', true)`)
}

// Apply is the statement that applies settings to the transaction it runs in.
func Apply(settings ...Settings) string { return `SELECT ` + join(settings) }

func join(settings []Settings) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = string(s)
	}
	return strings.Join(parts, ", ")
}
