// Package why turns what the ledger knows about one occurrence of a job into a
// [Story]: what happened, why, and what to do about it.
//
// It is pure. The caller reads the [Facts] (internal/postgres) and [Explain]
// puts them into words: first what the ledger says, and if the ledger has no
// entry, why it has none.
package why
