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
// Migrations run once, into a template; each test gets a clone of it. The template's name holds a hash of the migrations
// and the server's version, so a changed migration means another template. It is made under the name of a test
// database and renamed when it is complete, so nobody meets half of one, whichever process dies when. A lock only keeps
// processes from doing the work twice.
//
// # The end of a database
//
// If the test failed, its database stays and its URL is in the log. If it passed, the database is dropped, together
// with others: DROP DATABASE makes a checkpoint, and that checkpoint writes and syncs the some 300 files of every other
// new database on the server, which costs far more than the drop. Dropped at the same time, they cancel that work for
// each other. So a passed test leaves its database to whoever comes last: the cleanup that finds no other test of this
// process with a database drops all that are waiting, and so does the one that makes them too many. The last test of a
// process is always last, so nothing is left when the process ends, and no goroutine outlives a cleanup.
//
// A clone is some 300 new files, so the file system decides what it costs. On ext4 without a journal it costs more the
// more databases were dropped in the last minutes, because the kernel steps over inodes deleted recently.
//
// What a killed run or a failed test left is dropped by a later process, [maxAge] after it was made, unless someone is
// connected to it. Of the templates only the [keepTemplates] used most recently stay.
package pgtest
