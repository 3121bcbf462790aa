// Package amqp is the target that publishes to a RabbitMQ exchange (AMQP 0-9-1).
//
// Messages are persistent and mandatory, and channels use confirms. A run has succeeded when the broker has
// routed the message to at least one queue and confirmed it. The broker returns a message that no queue
// gets, and the run fails with that reason. Message-Id is the idempotency key.
//
// # Failures
//
//	no queue is bound for the routing key       permanent
//	no such exchange, no right to write there   permanent
//	a queue is full (reject-publish)            may be retried
//	no connection, wrong login or virtual host  may be retried
//	message not accepted in time                may be retried
//	no confirmation                             may be retried; the message may have been stored
//
// # Channels
//
// A delivery has a channel of the shared connection for itself, until its message is confirmed: the broker closes the
// whole channel when a message names an exchange that does not exist, and a returned message comes just before its
// confirmation. Channels are used again. A connection has maxChannels, or as many as the broker allows, and deliveries
// wait for one.
//
// # Brokers that do not respond
//
// While it writes or waits for a response, the client ignores contexts. Each message is therefore sent by a goroutine,
// and its delivery waits for it no longer than its timeout. If the broker sends nothing for three heartbeats, or does not
// read for writeLimit, the connection is closed and those goroutines end.
package amqp
