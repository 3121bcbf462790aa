// Package timeline puts together what a job did, does and will do: one item for each occurrence, whether it ran, was
// skipped, waits or is still to come, and one for each run that a user made.
//
// A list of runs has holes, because most occurrences that did not run have no row (see package ledger). Build starts from
// the schedule instead. It lists the occurrences of each version of the definition in the time that the version was in
// force, and asks ledger.Life.Account about each.
//
// Entries without an occurrence, such as triggers and backfills, are items of their own.
//
// The work is bounded by the number of occurrences and of entries. If there are more, the timeline covers the newest
// part of the past and the next part of the future, and says so.
//
// The package is pure: no I/O and no clock.
package timeline
