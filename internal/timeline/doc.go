// Package timeline puts together what a job did, does and will do: one item for each occurrence, whether it ran, was
// skipped, waits or is still to come, and one for each run that a user made.
//
// The ledger has no row for most occurrences that did not run: what a whole schedule skipped is a range of its cursor,
// and what a gap or a calendar removes is computed. A list of runs therefore has holes. Build starts from the schedule
// instead. It lists the occurrences of each version of the definition in the time that the version was in force, and
// finds for each the first of these that applies, as decision 10 says:
//
//	its entry in the ledger
//	the pause that is going on
//	a range in the history of the job
//	a range that its cursor skipped
//	it is not due, or not planned yet
//	the day is archived: only the archive knows
//	it was not the job's: all runs of max_runs were used, or history is not kept that long
//	nothing explains it
//
// Entries without an occurrence, such as triggers and backfills, are items of their own.
//
// The work is bounded by the number of occurrences and of entries. If there are more, the timeline covers the newest
// part of the past and the next part of the future, and says so.
//
// The package is pure: no I/O and no clock.
package timeline
