// Package keep is what time changes after a run has ended: jobs finish, finished
// one-offs leave, days of history are created ahead and dropped past their
// retention, and so is everything that expires.
//
//	finish   every 30 s      what users see: jobs whose end has come, cursors by new time zone rules
//	prune    every 10 min    days of history, output, responses, logins, statistics, skips, operations
//
// Every node runs both loops, at times of its own, in small transactions. What a
// node finds gone, another one has removed. No round begins while the clock of the
// database is in doubt.
//
//	loop.go         which steps a round has, and in which order
//	store.go        what the statements keep between calls
//	history.go      days of history
//	jobs.go         jobs that are finished or removed, skips and operations
//	zones.go        cursors that were computed by other time zone rules
//	output.go       live output of attempts that are not running
//	leftovers.go    responses, logins and statistics
package keep
