// Package cluster has the tests of whole processes: real belfry nodes on a real PostgreSQL, killed while they work.
//
//	nodes     belfry server processes, all with the same name (node_test.go)
//	database  a PostgreSQL for one test if the test kills it, otherwise the shared server (database_test.go), or a
//	          primary with two standbys if the test fails over (replica_test.go)
//	pgbouncer with DATABASE=pgbouncer, between the nodes and the database (pgbouncer_test.go)
//	sink      the outside world: records what reached it before it replies, and is slow now and then, so that
//	          kills hit attempts in progress (sink_test.go)
//	checker   compares the expected runs, the ledger and what reached the sink (check_test.go)
//
// The expected runs are computed independently of the product (internal/oracle). The checker compares sets.
//
// Each fault has a short form, which is part of every test run unless another drill contains it (make test/cluster), and
// a long form with the variables of `make cluster`, `make takeover` and `make cluster-all`. Only the long forms enforce
// the documented times: a machine that runs all tests at once is slow, so the short forms allow three times as much.
//
// # Words
//
//	setup      what a cluster is made of: how many nodes, which database, whether a proxy is between, how slow the sink is
//	form       the size of a drill: faults, seconds, and jobs that are due every second. form.long() replaces the
//	           numbers by KILLS, SECONDS and JOBS if they are set
//	create     creates the jobs, due every second until an end; `spread` is one of the edits it takes
//	every      calls a fault n times, evenly over a time; killAtRandom does so at random times
//	kill       ends a random node with a signal and starts another; `pause` suspends one after the other
//	finish     waits until the end has passed and nothing is left to do
//	check      compares what had to happen with the ledger and the receipts, and returns a report; `judge` is its pure
//	           part, which checker_test.go tests with ledgers that are wrong on purpose
//	clean      fails if anything of a report is wrong, except duplicates by different attempts
//	exposure   the duplicates that the kills should have caused, and those that the sink counted
//	figures    durations that were measured, with percentiles
//	allowed    how long something may take: as documented in a long form, three times as long in a short one
//
// TestKill9 in kill_test.go is the drill to read first: its comments say what each step is for. A failed test keeps the
// logs of its nodes in a file that it names, and prints SEED, which makes the sink as slow as it was.
package cluster
