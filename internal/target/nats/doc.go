// Package nats is the target that publishes to a NATS JetStream stream.
//
// A run has succeeded when the stream has confirmed the message. The Nats-Msg-Id header is the idempotency
// key. If a message is sent again within the stream's duplicate window (two minutes by default), the stream
// stores it once, and the outcome is the same.
//
// # Failures
//
//	no stream takes the subject     may be retried: JetStream responds like this while
//	                                it elects a leader
//	the stream is full              may be retried
//	too large for the stream        permanent
//	another stream than expected    permanent
//	not allowed to publish          no confirmation: the server does not say which
//	                                message it rejected
//	no connection, wrong login      may be retried
//	no confirmation                 may be retried; the message may have been stored
//
// # Connections
//
// Nothing is sent again by the client: it does not reconnect. A connection that breaks fails the deliveries that wait
// on it, and the pool opens another (see package broker).
package nats
