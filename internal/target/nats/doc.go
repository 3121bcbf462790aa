// Package nats is the target that publishes to a JetStream stream of NATS.
//
// A run has succeeded when the stream has confirmed that it keeps the message. The
// header Nats-Msg-Id is the idempotency key, so that a message which is sent again
// within the stream's duplicate window (two minutes unless the stream says
// otherwise) is kept once; the outcome is the same.
//
// # What a failure means
//
//	no stream takes the subject     may be tried again: JetStream says the same
//	                                while it elects a leader
//	the stream is full              may be tried again
//	too large for the stream        failed for good
//	another stream than expected    failed for good
//	not allowed to publish          no confirmation: the server does not say to
//	                                which message it said no
//	wrong credentials, or TLS       failed for good: see package broker
//	it cannot be connected to       may be tried again
//	no confirmation                 may be tried again; the message may be there
//
// # Connections
//
// The client's own reconnecting is off: it would keep messages and send them when
// Belfry has long tried again. A connection that breaks fails what waits on it, and
// the pool opens another (see package broker). Servers that a server tells of are not
// used.
package nats
