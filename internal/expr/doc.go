// Package expr is the expressions that users write where a plain text would not
// do: the idempotency key of a run, the key or subject of a message. They are CEL
// (the Common Expression Language): no loops without an end, no input or output,
// checked when a job is saved.
//
// # What an expression may speak of
//
//	job.id, job.name, job.namespace, job.queue   texts
//	job.labels                                   texts by key: job.labels.team, job.labels["a/b"]
//	due_at                                       timestamp, nominal time
//	run_id                                       text
//	payload                                      the JSON that is sent; null: none
//	attempt, idempotency_key                     number and text; not for the idempotency key itself
//
// Whole numbers of a payload are integers, so that string(payload.order) is
// "12345678" and not "1.2345678e+07".
//
// # Bounds
//
// A text has at most [MaxText] bytes. What it may cost is bounded twice: by an
// estimate when it is saved, which assumes lists and texts of the payload of a usual size, and by
// a count when it is evaluated, which is exact. Both counts are of CEL's units of
// work, not of time, so that an expression which works once works always.
//
// An expression gives a text. That it cannot (a field that the payload lacks, a
// number where a text was meant, too much work) is an error with a message for
// the job's author, never a silent default.
package expr
