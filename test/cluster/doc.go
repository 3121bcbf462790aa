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
// Each fault has a short form, which is part of every test run, and a long form with the variables of `make cluster`,
// `make takeover` and `make cluster-all`. Only the long forms enforce the documented times: a machine that runs all
// tests at once is slow, so the short forms allow three times as much.
package cluster
