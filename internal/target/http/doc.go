// Package http is the target that calls a URL.
//
// # What is sent
//
// One request per attempt: the method of the config (POST unless it says
// otherwise) with the config's body, or else the run's payload as JSON. GET and
// HEAD have no body. With it go
//
//	Idempotency-Key  the run's id, or what the job's idempotency_key gives: the
//	                 same on every attempt and redrive
//	Belfry-Run-Id    the run's id
//	Belfry-Job-Id
//	Belfry-Due-At    nominal time, RFC 3339 with microseconds, UTC
//	Belfry-Attempt   from 1
//	traceparent      W3C trace context: one trace per run, one span per attempt
//
// # What the answer means
//
//	2xx                  succeeded
//	202                  accepted: the receiver reports later
//	410                  failed, and the job is paused: gone for ever
//	408 425 429 5xx      failed, may be tried again; Retry-After counts
//	3xx                  failed for good: redirects are not followed, as they
//	                     would carry the headers to a place nobody chose
//	anything else        failed for good
//	no answer, timeout   failed, may be tried again
//
// A 2xx counts when the answer has ended, or when maxDrain bytes of it were
// read: an answer that breaks off, or has not ended when the time is over, may be
// that of a handler which died halfway, and is no success. All other statuses
// count as soon as they are seen.
//
// A context that is cancelled (not one whose time is over) means that the node
// stops: that is a failure which may be tried again, not a cancellation. Whoever
// cancels a run on purpose knows that, and says so in its place.
//
// # Never twice behind Belfry's back
//
// net/http repeats a request by itself when a reused connection breaks before the
// first byte of the answer, if it takes the request for idempotent, which it does
// for any with a header Idempotency-Key in the usual spelling. The receiver may
// have worked on the first one. Attempts are counted, and delivery at_most_once is
// a promise, so the header is sent in a spelling that net/http does not look for;
// names of headers have no case. What remains are repetitions of requests of which
// nothing was sent, and those of GET and HEAD, which are safe by definition
// (RFC 9110, 9.2.1): who wants at_most_once uses POST.
//
// The price is that a request may meet a connection which the receiver is just
// closing, and fail. Hence the short idleTimeout: usually this side closes first.
//
// # Secrets
//
// Headers and the URL's query may be secret. Outcomes name a target by scheme and
// host alone, and what the receiver answers is shown with the values of headers
// and query blotted out, because receivers echo requests in their error pages.
// Nothing here logs.
package http
