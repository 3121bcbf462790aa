// Package broker contains what the targets kafka, nats and amqp have in common: how they read settings,
// what they send with each message, how they share connections, and what a failure means.
//
// Each kind implements [Settings] and is a [Kind]: build a message, open a connection, publish. [Target] does the rest.
//
//	config ──► message ──► broker (Source) ──► connection (Pool) ──► publish ──► outcome
//
// # Brokers
//
// A job names a broker. The operator of the cluster has set where it is and how to log in there, so its servers are
// trusted (decision 79). [Complete] checks what an operator sets.
//
// # Connections
//
// All deliveries to a broker share one connection, so a burst of runs is written and confirmed together. A [Pool] opens
// one connection at a time, waits longer after each failed try, and closes connections that were not used for a while.
// A changed broker means another connection.
//
// A connection that breaks fails all deliveries that wait on it immediately. Their outcome is unknown, so
// they may be retried, unless the job says at_most_once. The next delivery opens another connection. No client sends
// anything after the attempt has ended.
//
// A failure to connect may be retried, whatever its cause: the settings are not the job's.
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
