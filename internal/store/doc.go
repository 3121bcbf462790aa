// Package store is what all statements stand on: the connections to one database,
// what a transaction may see, the order of locks, and the errors of the server. It
// has no statement about jobs or runs itself.
//
// The type of a connection decides what a statement may see:
//
//	            ┌── All         every namespace: the engine's side
//	Pool ───────┤
//	            └── Namespaced  one namespace per transaction: the API's side
//
// [Namespaced] has no way to reach a connection without naming a namespace. Each
// of its transactions begins by taking the role belfry_api and setting
// belfry.namespace, so row-level security applies whatever the statement says.
// A method of postgres.API that forgets its WHERE clause therefore finds nothing
// of another namespace, and one that names no namespace does not compile.
package store
