// Package command is the target that runs a program on the node, in a sandbox or a container. It is off
// unless the node's operator turns it on and lists the programs that may run. Jobs choose the arguments, the
// environment and the input.
//
// # Where commands run
//
// Commands do not run in the node's process. The node's child `belfry runner` starts them; see
// internal/target/command/runner for how it isolates them. That process knows neither the database nor a
// key. When it dies, its commands have failed and may be retried. The node starts another runner, with a
// longer pause each time.
//
// # What a command gets
//
//	stdin                   the config's stdin, or else the run's payload
//	BELFRY_RUN_ID           the run's id
//	BELFRY_IDEMPOTENCY_KEY  the run's id, or the result of the job's idempotency_key;
//	                        the same on every attempt and redrive
//	BELFRY_JOB              the job's id
//	BELFRY_DUE_AT           nominal time, RFC 3339 with microseconds, UTC
//	BELFRY_ATTEMPT          from 1
//	TRACEPARENT             W3C trace context: one trace per run, one span per attempt
//
// It also gets the config's env. Secrets are passed in env or stdin, by name. Arguments cannot contain
// secrets, because everyone who can list the machine's processes sees them.
//
// # Outcomes
//
//	exit code 0               succeeded
//	75 (EX_TEMPFAIL)          failed, may be retried
//	one of retry_codes        failed, may be retried
//	any other code            failed permanently
//	killed by a signal        failed, may be retried
//	out of time or memory     failed, may be retried
//	not allowed on this node  failed permanently
//	no sandbox, runner died   failed, may be retried
//	no free command slot      deferred: retried later, does not count as an attempt.
//	                          Namespaces share the slots: see internal/target/gate
//
// # Output
//
// Output is stdout and stderr, in the order in which they were written. The last part is stored with the
// attempt: whole lines of valid UTF-8, without terminal control sequences, and with secrets redacted. A
// command never fails because of its output, however much it writes.
package command
