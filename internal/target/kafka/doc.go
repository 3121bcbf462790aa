// Package kafka is the target that produces to a Kafka topic.
//
// A run has succeeded when all in-sync replicas have the record (acks=all). The producer is idempotent: if
// the client resends a record, Kafka stores it once. If Belfry retries with a new attempt, that is another
// record with the same key. Consumers recognise it by the Idempotency-Key header, and compacted topics by
// the record key, which is the idempotency key unless the config sets another.
//
// # Failures
//
//	no such topic                    may be retried; topics are not created
//	too few in-sync replicas         may be retried
//	too large for the topic          permanent
//	not allowed, wrong credentials   permanent
//	wrong TLS settings               permanent: see package broker
//	no connection                    may be retried
//	no confirmation                  may be retried; the record may have been stored
//
// # Batches
//
// The client collects the records of all deliveries on one connection for linger and sends them together,
// one batch per partition of the topic. If a record could not be sent within the attempt's timeout, it is
// withdrawn together with the records behind it for the same partition. All of them are retried, and none
// arrives late. The outcome of a record that was sent but not confirmed is unknown.
//
// # Unreachable clusters
//
// If no broker can be reached for downGrace, all deliveries fail and the client is closed. The next
// delivery creates another.
//
// Connections to the addresses that brokers advertise go through the guard, like those of the config. If
// such an address cannot be reached, nothing was sent: once the client has tried recordRetries times, the
// outcome is the same as for an address of the config.
//
// # Hostile brokers
//
// The client trusts the brokers, so checked stands between it and each socket (decision 60). Responses have a
// maximum size, and metadata a maximum of brokers, topics and partitions. A client that knows many topics is
// replaced by another, because it would keep them for ever.
package kafka
