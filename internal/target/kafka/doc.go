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
//	it cannot be connected to      may be tried again
//	no confirmation                may be tried again; the record may be there
//
// # Batches
//
// Records of all deliveries with the same connection are gathered for linger and
// sent together, for each partition of the topic. A record that is once handed to the client
// cannot be taken back without failing those beside it, so that a delivery whose
// time is over leaves its record behind: it may still arrive, and counts as an
// unknown outcome. The client gives up on records after recordTimeout.
//
// A cluster of which no broker can be reached is given up within downGrace: all
// deliveries fail, the client is closed, and the next delivery makes another. Addresses
// that brokers advertise are connected to through the guard, as those of the config.
package kafka
