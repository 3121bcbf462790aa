// Package postgres is MEMORY: the schema, and all SQL but that of the steps of a run
// in internal/path. It opens the transaction, reads locked rows, asks a pure
// function, writes and commits. It executes decisions and makes none.
//
// A [DB] is one database with six sides. The type of a side decides what its
// statements may see:
//
//   - [Engine]: the path (plan, claim, finish, keep) over the runs of
//     all namespaces.
//   - [API]: what users ask for. Each call names one namespace and runs under
//     row-level security (see the package store). It cannot reach a connection in
//     another way.
//   - [Views]: what people look at, and [Operations]: work on many jobs or runs. They
//     see what API sees.
//   - [Members]: sessions of nodes and ownership of partitions.
//   - [Admin]: what concerns the whole database: namespaces, keys before their
//     namespace is known, roles, the schema's version.
//
// Rules that every statement keeps:
//
//   - The current time comes from the database, once per transaction.
//   - Runs are locked in the order of their keys, cursors before jobs before runs.
//   - A completion names run and attempt, and zero rows means that another attempt
//     took over.
//   - Hot statements find rows by their whole key, so that wrong statistics cannot
//     give them another plan (TestHotStatementsKeepTheirPlan).
package postgres
