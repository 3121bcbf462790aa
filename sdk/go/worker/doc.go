// Package worker runs the jobs whose target is a worker: it pulls runs of a queue from Belfry, calls your
// handlers, and reports the outcomes.
//
//	w := worker.New(client, "invoices", worker.Slots(20))
//	worker.Handle(w, "send-invoice", func(ctx context.Context, run *worker.Run, in Invoice) error { … })
//	err := w.Run(ctx) // until ctx ends, and then until running handlers have ended
//
// The return value of a handler decides the outcome. With nil the run has succeeded. With an error it is
// retried according to the job's retry policy. [Snooze], [RetryAfter], [Permanent] and [Cancel] return errors
// for other outcomes. A panic counts as an error.
//
// A run is leased to the worker's session. The worker sends heartbeats for all its runs. If a run is
// cancelled, exceeds its timeout or no longer belongs to this worker, its context ends and [context.Cause]
// says why.
//
// If a worker dies, or cannot reach Belfry for longer than its session's lifetime, other workers get its
// runs. It keeps them while Belfry answers that its database is unavailable. A handler may be called twice for
// one run. Run.Key is the same both times, and package
// effects uses it to apply an effect only once.
//
// If the server rejects the worker (for example, a wrong key), Run returns that error. If the server is
// unreachable, the worker keeps retrying and logs it.
package worker
