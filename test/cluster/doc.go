// Package cluster holds the tests of whole processes: real belfry nodes on a
// real PostgreSQL, killed while they work, judged by what must have happened.
//
//	nodes     belfry server processes, all with one name (node_test.go)
//	database  a PostgreSQL of the test's own, where the test kills it; else the
//	          server that all tests share (database_test.go)
//	sink      the outside world: notes what reached it before it answers, and is
//	          slow now and then, so that kills hit attempts under way (sink_test.go)
//	checker   compares what must be, what the ledger says and what reached the
//	          sink (check_test.go)
//
// What must be there is told by the schedule's own arithmetic (test/oracle) and
// not by the product; the checker compares sets.
//
// Each fault has a short form, which is part of every test run, and a long one
// by the variables of `make cluster`, `make takeover` and `make cluster-all`.
// Only the long forms hold the product to its times: a machine that runs all
// tests at once is slow, and gets three times as much.
package cluster
