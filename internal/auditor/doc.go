// Package auditor judges the ledger: is every occurrence that a schedule demands there, and nothing else?
//
// It is pure. internal/postgres reads jobs with their versions ([Job]) and then their entries of the ledger ([Entry]),
// and a [Judge] compares the two:
//
//	life.go    the due times that a job must account for: its schedules, cut to the time that each was in force
//	times.go   the due times of a schedule, by the product's code or by the oracle
//	judge.go   what happened to each, by the rule of docs/decisions/0010
//	report.go  the result
//
// # Why no transaction spans the two reads
//
// The job, its versions and its cursor are read first, at an instant N. Entries are read later, and only due times up
// to N are judged. What is due by N and planned at N stays in the ledger: an entry moves from run to run_history in one
// transaction, and a pause, an edit or a delete after N removes only runs that are due after it. So a due time that the
// cursor had passed at N has an entry in every later snapshot, or it is lost.
package auditor
