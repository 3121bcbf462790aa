// Package scratch is the database that a benchmark creates for itself, so that it never touches the user's data.
//
// Nodes work on it as on any other database. This package only does what users cannot: it loads millions of jobs and
// their cursors with a few statements, reads the ledger and the counters of the server, and drops the database.
//
//	scratch.go   create, open and drop the database and its role; settings, counters and clock
//	load.go      load jobs and cursors, and read their outcomes
package scratch
