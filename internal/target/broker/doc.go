// Package broker is what the targets kafka, nats and amqp have in common: how
// their settings are read, what goes with each message, and how connections are
// shared.
//
// # Connections
//
// All deliveries with the same settings of connection (namespace, servers, TLS,
// credentials) share one, so that a burst of runs is written and confirmed in
// batches and not one round trip after the other. A [Pool] opens them one at a
// time each, bounds their number, waits longer and longer between tries that
// failed, and closes those that nobody has used for a while. A secret that was
// changed is another connection. Of several servers the first that works is taken;
// each has its share of the time that is left, so that one which does not answer
// does not hide the next.
//
// A connection that breaks fails all deliveries that wait on it, at once: what
// they came to is unknown, so they may be tried again, unless the job says
// at_most_once. The next delivery opens another.
//
// # TLS and logins
//
// What the job's settings are to blame for is final, and the message names the
// setting; what is mended at the server may be tried again (decision 25). Passwords,
// keys and credentials are stored secrets: messages never hold what a client or a
// server said about them.
//
// # What goes with a message
//
//	Idempotency-Key  the run's id, or what the job's idempotency_key gives
//	Belfry-Run-Id
//	Belfry-Job-Id
//	Belfry-Due-At    nominal time, RFC 3339 with microseconds, UTC
//	Belfry-Attempt   from 1
//	traceparent
//
// and, with wait_for report, what the consumer needs to report:
//
//	Belfry-Run-Url    where
//	Belfry-Run-Token  the bearer token for it, good for this attempt alone
//
// The body is the run's payload, as it is.
//
// # wait_for
//
// With ack, the default, a run has succeeded when the broker has confirmed that it
// keeps the message. With report it is then accepted: it waits for the consumer to
// report what it came to.
package broker
