// Package loop runs background work in rounds: plan once a second, renew a session, retry a write
// until the database accepts it. Every background goroutine of a node that repeats something is a
// [Loop], so they all pause, back off, log and stop in the same way.
//
//	           ┌────────── pause, or Wake ◄──────────┐
//	           ▼                                     │ no error
//	Run ──► Once(ctx, at most Limit) ────────────────┤
//	           ▲                                     │ error: log, OnFailure
//	           └────────── backoff ◄─────────────────┘
//
//	ends: the context is done, or Once returns ErrDone
//
// A round is a plain function that returns how long to pause before the next one. Tests call that
// function directly and never wait for a timer.
//
// # Failures
//
// An error never ends a loop: the database being down is no reason to stop. The loop logs
// "<title> failed", reports the failure to OnFailure for metrics, and retries with a growing pause.
// A failure that lasts is logged the first, second, fourth, eighth time and so on (see
// [telemetry.Trouble]); the first round that succeeds again logs "<title> recovered".
//
// A round that had nothing to do proves nothing. If Ready is set, a round without an error ends a
// series of failures only while Ready returns true.
//
// # Stopping
//
// When the context is done, Run returns as soon as the current round does. It does not log the error
// of a round that the end of the context interrupted.
package loop
