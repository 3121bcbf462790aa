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
//	not allowed to write             permanent
//	no connection, wrong login       may be retried
//	no confirmation                  may be retried; the record may have been stored
//
// # Batches
//
// The client collects the records of all deliveries on one connection for linger and sends them together,
// one batch per partition of the topic. If a record is not confirmed within the attempt's timeout, it is
// withdrawn together with the records behind it for the same partition. All of them are retried, and none
// is sent later. The outcome is unknown then.
//
// # Unreachable clusters
//
// A client that cannot connect is replaced. The next delivery pings the cluster first, so that nothing was sent
// if no broker responds.
package kafka
