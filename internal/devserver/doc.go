// Package devserver runs all of Belfry on one machine, for belfry dev: a PostgreSQL, a node with the API,
// a target that prints what it receives, and a demo job.
//
// PostgreSQL runs in a process of its own, which is this program called with DatabaseCommand. There are
// two reasons: PostgreSQL refuses to run as root, so it may need another user; and if belfry dev is
// killed, that process notices that its standard input has ended and stops the database.
package devserver
