// Package expr compiles and evaluates the expressions that users write for the idempotency key of a run or the key or
// subject of a message. They are CEL (the Common Expression Language): no unbounded loops, no input or output, checked
// when a job is saved.
//
// # What an expression can use
//
//	job.id, job.name, job.namespace, job.queue   strings
//	job.labels                                   strings by key: job.labels.team, job.labels["a/b"]
//	due_at                                       timestamp, nominal time
//	run_id                                       string
//	payload                                      the JSON that is sent; null if there is none
//	attempt, idempotency_key                     number and string; not for the idempotency key itself
//
// Whole numbers of a payload are integers, so string(payload.order) is "12345678" and not "1.2345678e+07".
//
// # Bounds
//
// An expression has at most [MaxText] bytes. Its cost is bounded twice: by an estimate when it is saved, which assumes
// usual sizes for lists and strings of the payload, and by an exact count when it is evaluated. Both count CEL's units
// of work and not time, so an expression does not fail because a machine is slow.
//
// An expression gives a string. If it cannot (the payload lacks a field, the result is a number, too much work), that
// is an error with a message for the job's author, never a silent default.
package expr
