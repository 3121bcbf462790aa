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
//	no such virtual host, wrong credentials     permanent
//	wrong TLS settings                          permanent: see package broker
//	a queue is full (reject-publish)            may be retried
//	no connection                               may be retried
//	connection lost during login, broker full   may be retried: only an explicit
//	                                            refusal is permanent
//	message not accepted in time                may be retried
//	no confirmation                             may be retried; the message may have
//	                                            been stored
//
// # Channels
//
// Each exchange has its own channel on the shared connection, because the broker closes the whole channel
// when a message names an exchange that does not exist. There are at most maxChannels, or as many as the
// broker allows. A further exchange replaces the least recently used idle channel, or waits while all are in
// use.
//
// One goroutine per channel reads returns from an unbuffered Go channel. The broker sends a return just before
// the confirmation of the same message, and only that order connects the two. A broker may confirm messages in
// any order.
//
// # Brokers that do not respond
//
// While it writes or waits for a response, the client ignores contexts. Channels are therefore opened,
// written to and closed by their own goroutines, a few per exchange, and a delivery waits for them no longer
// than its timeout. A channel that does not open does not affect other exchanges on the same connection.
//
// If the broker sends nothing for three heartbeats, or does not read for writeLimit, the connection is
// closed and those goroutines end.
//
// # Hostile brokers
//
// The client trusts the broker, so checked stands between it and the socket (decision 60): frames, replies,
// confirmations and returned messages that no honest broker sends close the connection.
package amqp
