// Package pgtest gives each test a migrated PostgreSQL database of its own.
//
//	pool := pgtest.New(t)  // a pool on the database
//	url := pgtest.URL(t)   // its URL, for a test that starts processes
//
// The server is the one BELFRY_TEST_DATABASE_URL names, or else the one `dev/services up postgres` starts. Without a
// server the test fails; it is never skipped.
//
// # The template
//
// Migrations run once, into a template, and each test gets a clone of it. The template's name has a hash of the
// migrations and the server's version, so a changed migration means another template. It is created under the name of a
// test database and renamed when it is complete, so no process ever uses an incomplete one. A lock keeps processes from
// doing the work twice.
//
// # The end of a database
//
// If the test failed, its database stays and its URL is in the log. If it passed, the database is dropped together with
// others: DROP DATABASE makes a checkpoint, which writes and syncs the about 300 files of every other new database on
// the server and costs far more than the drop. Databases that are dropped at the same time save that work for each
// other. So a passed test puts its database on a list. The cleanup that finds no other test of this process with a
// database drops all on the list, and so does the one that finds too many there. The last test of a process drops the
// rest, and no goroutine outlives a cleanup.
//
// A clone is about 300 new files, so its cost depends on the file system. On ext4 without a journal it grows with the
// number of databases that were dropped in the last minutes, because the kernel skips recently deleted inodes.
//
// A later process drops databases of killed runs and failed tests, [maxAge] after they were created, unless they have
// connections. Of the templates only the [keepTemplates] most recently used stay.
package pgtest
