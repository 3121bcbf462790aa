// Package amqp is the target that publishes to an exchange of RabbitMQ (AMQP
// 0-9-1).
//
// Messages are persistent and mandatory, and channels confirm: a run has succeeded
// when the broker has routed the message to at least one queue and confirmed that
// those keep it. What no queue would get comes back, and is a failure that says so,
// not a success into nowhere. Message-Id is the idempotency key.
//
// # What a failure means
//
//	no queue is bound for the routing key     failed for good
//	no such exchange, no right to write there failed for good
//	no such virtual host, wrong credentials   failed for good
//	wrong settings of TLS                     failed for good: see package broker
//	a queue is full (reject-publish)          may be tried again
//	it cannot be connected to                 may be tried again
//	it leaves during the login, or is full    may be tried again: only its own word is a refusal
//	it does not take the message in time      may be tried again
//	no confirmation                           may be tried again; the message may be there
//
// # Channels
//
// Each exchange has a channel of its own on the shared connection: a broker closes
// the whole channel when a message names an exchange that is not there, and the
// messages of other exchanges must not go with it. Returns and confirmations of a
// channel are read by one goroutine from unbuffered Go channels, since the broker
// sends a return just before the confirmation of the same message and that order is all that joins them.
//
// # Brokers that do not answer
//
// The client waits for answers, and for what it writes to be read, without heed to
// a context. So channels are opened, written to and closed by goroutines of their
// own, a few for each exchange, and a delivery waits for them as long as its timeout
// and no longer: that one exchange's channel does not open is no concern of the
// others on the same connection. A broker that says nothing at all, not even that it
// lives, loses the connection after three of its heartbeats, and one that leaves unread what is written to
// it after writeLimit; those goroutines end with it.
package amqp
