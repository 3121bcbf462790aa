// Package worker runs the jobs whose target is a worker: it pulls runs of a queue
// from Belfry, calls your handlers, and reports what they came to.
//
//	w := worker.New(client, "invoices", worker.Slots(20))
//	worker.Handle(w, "send-invoice", func(ctx context.Context, run *worker.Run, in Invoice) error { … })
//	err := w.Run(ctx) // until ctx ends, and then until what has begun is done
//
// What a handler returns says what becomes of the run: nil, it succeeded; an error,
// it is tried again as the job's retry policy says; and [Snooze], [RetryAfter],
// [Permanent] and [Cancel] what their names say. A panic is an error.
//
// A run is leased to the worker's session. The worker sends a heartbeat for all of
// its runs; when one is cancelled, takes too long or is no longer this worker's, its
// context ends and [context.Cause] says why. A worker that dies, or that cannot
// reach Belfry for longer than its session lives, has its runs given to others. So a
// handler may be called twice for one run: Run.Key is the same then, and package
// effects makes of it that the effect happens once.
package worker
