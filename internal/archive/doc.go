// Package archive is the format of archived history: what a day of the ledger looks like in object storage, and how it
// is read and verified. It knows no database. docs/decisions says how a day gets there exactly once.
//
//	v1/runs/day=2026-11-15/namespace=<id>/part-00001-<job>.g1.parquet    ended runs, sorted by job, due time and sequence
//	v1/skips/day=2026-11-15/namespace=<id>/part-00001-<cursor>.g1.parquet  due times that no job of a schedule ran for
//	v1/manifest/2026-11-15.g0001.json                                    what the day consists of, written last
//
// A day is that of ended_at (runs) or created_at (skips), in UTC. Objects are never overwritten: every write is
// conditional on the absence of the object. A day that has to be written again gets the next generation (g2), and
// readers use the newest manifest of a day. An object that no manifest names does not exist for them.
//
// Parts are deterministic: the same rows give the same bytes, so a retry finds its own objects and continues.
package archive
