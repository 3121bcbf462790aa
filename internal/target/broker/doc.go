// Package broker contains what the targets kafka, nats and amqp have in common: how they read settings,
// what they send with each message, how they share connections, and what a failure means.
//
// Each kind implements [Settings]: build a message, open a connection, publish. [Target] does the rest.
//
//	config ──► message ──► connection (Pool) ──► publish ──► outcome
//
// # Connections
//
// All deliveries with the same connection settings (namespace, servers, TLS, credentials) share one
// connection, so a burst of runs is written and confirmed in batches. A [Pool] opens one connection per
// key at a time, limits their number, waits longer after each failed try, and closes connections that
// were not used for a while. Their number is divided among namespaces (package share). A connection that was replaced,
// because it broke or its server is about to stop, counts until its last delivery has ended. Deliveries of a namespace
// that has no connection left are deferred. A changed secret means another connection.
//
// Of several servers, the first that works is used. Each gets its share of the remaining time, so that
// one that does not respond does not use up the time of the next.
//
// A connection that breaks fails all deliveries that wait on it immediately. Their outcome is unknown, so
// they may be retried, unless the job says at_most_once. The next delivery opens another connection.
//
// # Hostile servers
//
// An editor of any namespace chooses the servers, so they are not trusted (decision 60). Package
// throttle limits how fast the connections of a client are read. What a server may send is up to each kind.
//
// # TLS and logins
//
// If the job's settings are wrong, the failure is permanent and the message names the setting. If the
// server must be fixed, the delivery may be retried (decision 25). Passwords, keys and credentials are
// stored secrets. Messages never contain what a client or a server said about them.
//
// # Headers
//
//	Idempotency-Key  the run's id, or the result of the job's idempotency_key
//	Belfry-Run-Id
//	Belfry-Job-Id
//	Belfry-Due-At    nominal time, RFC 3339 with microseconds, UTC
//	Belfry-Attempt   from 1
//	traceparent
//
// With wait_for report, the consumer also gets what it needs to report:
//
//	Belfry-Run-Url    the URL to report to
//	Belfry-Run-Token  the bearer token for it, valid for this attempt only
//
// The body is the run's payload.
//
// # wait_for
//
// With ack, the default, a run has succeeded when the broker has confirmed the message. With report the
// run is then accepted, and the consumer reports its outcome.
package broker
