// Package command is the target that runs a program on the node, in a sandbox.
// It is off unless the node's operator turns it on and says which programs may
// be run; jobs say with what arguments, environment and input.
//
// # Where it runs
//
// Not in the node. The node's child `belfry runner` starts commands; see
// internal/target/command/runner for how it holds them. That process knows
// neither the database nor a key. When it dies, what it ran has failed and may be
// tried again, and it is started anew, later each time.
//
// # What a command gets
//
//	stdin                   the config's stdin, or else the run's payload
//	BELFRY_RUN_ID           the run's id
//	BELFRY_IDEMPOTENCY_KEY  the run's id, or what the job's idempotency_key gives; the same on every attempt and redrive
//	BELFRY_JOB              the job's id
//	BELFRY_DUE_AT           nominal time, RFC 3339 with microseconds, UTC
//	BELFRY_ATTEMPT          from 1
//	TRACEPARENT             W3C trace context: a trace for each run, a span for each attempt
//
// and the config's env. Secrets go into env or stdin, by their name: arguments are
// seen by all who can list the machine's processes.
//
// # What its end means
//
//	exit code 0               succeeded
//	75 (EX_TEMPFAIL)          failed, may be tried again
//	one of retry_codes        failed, may be tried again
//	any other code            failed for good
//	killed by a signal        failed, may be tried again
//	out of time or memory     failed, may be tried again
//	not allowed on this node  failed for good
//	no sandbox, runner died   failed, may be tried again
//	no slot for it was free   deferred: it comes again, which costs no attempt
//
// # What it writes
//
// stdout and stderr, in the order in which they came. The end of it is kept with
// the attempt: whole lines, valid UTF-8, without anything that a terminal would
// obey, and with secrets blotted out. It never fails a command, however
// much it is.
package command
