// Package kafka is the target that produces to a topic of Kafka.
//
// A run has succeeded when all replicas in sync have the record (acks=all). The
// producer is idempotent: what it sends again by itself is kept once. What Belfry
// sends again, as a new attempt, is another record with the same key: consumers
// tell by the header Idempotency-Key, and compacted topics by the key, which is the
// idempotency key unless the config says otherwise.
//
// # What a failure means
//
//	no such topic                  may be tried again; topics are not made
//	too few replicas in sync       may be tried again
//	too large for the topic        failed for good
//	not allowed, wrong credentials failed for good
//	wrong settings of TLS          failed for good: see package broker
//	it cannot be connected to      may be tried again
//	no confirmation                may be tried again; the record may be there
//
// # Batches
//
// Records of all deliveries with the same connection are gathered for linger and
// sent together, for each partition of the topic. A record that could not be sent
// within the attempt's timeout is taken back, and with it those behind it for the
// same partition, which have waited in vain as well: all are tried again, and none arrives late.
// One that was sent and not confirmed may be there: an unknown outcome.
//
// A cluster of which no broker can be reached is given up within downGrace: all
// deliveries fail, the client is closed, and the next delivery makes another. Addresses
// that brokers advertise are connected to through the guard, as those of the config.
// Where one of them cannot be, nothing was sent: it is what it is for those of the
// config, when the client has tried recordRetries times.
package kafka
