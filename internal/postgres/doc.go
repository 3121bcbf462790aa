// Package postgres is Belfry's MEMORY: the only SQL.
//
// The schema is the files in migration/, named by what they do and applied in the order of their numbers. They are
// part of the binary, so a binary and the schema it needs cannot be separated. A migration that was released is never
// edited; the next one changes what it made.
//
// A statement for a user runs in a transaction that has taken the role belfry_api and names its namespace: row-level
// security then holds it, whatever it says. The engine's statements run as the server's own role, on all namespaces.
//
// [Migrate] may be called by any number of processes at once, also through PgBouncer in transaction mode: the lock is a
// row with a lease, not an advisory lock, which belongs to a server connection that PgBouncer hands to someone else.
package postgres
