// Package cluster holds the tests of whole processes: real belfry nodes on a
// real PostgreSQL, killed while they work, judged by what must have happened.
//
// The sink is the outside world: it notes what reached it before it answers.
// What must be there is told by the schedule's own arithmetic (test/oracle) and
// not by the product; the checker compares sets.
package cluster
