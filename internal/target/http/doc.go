// Package http is the target that sends a request to a URL.
//
// # The request
//
// Each attempt sends one request: the method of the config (POST by default) with the body of the
// config, or else the run's payload as JSON. GET and HEAD have no body. A signed request without a payload has the
// body {}. The request has these headers:
//
//	Idempotency-Key  the run's id, or the result of the job's idempotency_key;
//	                 the same on every attempt and redrive
//	Belfry-Run-Id    the run's id
//	Belfry-Job-Id
//	Belfry-Due-At    nominal time, RFC 3339 with microseconds, UTC
//	Belfry-Attempt   from 1
//	traceparent      W3C trace context: one trace per run, one span per attempt
//
// # The response
//
//	2xx                    succeeded
//	202                    accepted: the receiver reports later
//	410                    failed, and the job is paused: gone permanently
//	408 425 429 5xx        failed, may be retried; Retry-After is honoured
//	3xx                    failed permanently: following a redirect would send the
//	                       headers to a host the user did not choose
//	any other status       failed permanently
//	no response, timeout   failed, may be retried
//
// A 2xx counts once the response has ended, or once maxDrain bytes of it were read. A response that
// breaks off or does not end before the timeout may come from a handler that died halfway, so it is not
// a success. All other statuses count as soon as they are seen.
//
// If the context is cancelled, the node is stopping. The attempt then failed and may be retried. If a
// run is cancelled on purpose, the caller knows that and replaces the outcome.
//
// # No hidden repetition
//
// net/http repeats a request by itself when a reused connection breaks before the first byte of the
// response, if it considers the request idempotent. It does so for any request with an Idempotency-Key
// header in the usual spelling. The receiver may have processed the first request, attempts are
// counted, and delivery at_most_once is a promise. The header is therefore sent in a spelling that
// net/http does not recognise; header names are case-insensitive.
//
// net/http still repeats requests of which nothing was sent, and GET and HEAD, which are safe by
// definition (RFC 9110, 9.2.1). Jobs that need at_most_once use POST.
//
// The price is that a request fails if it meets a connection that the receiver is just closing. The
// short idleTimeout makes that rare, because the node usually closes first.
//
// # Secrets
//
// Headers and the URL's query may contain secrets. Outcomes name a target by scheme and host only. The
// values of headers and query are redacted from responses, because receivers repeat requests in their
// error pages. This package does not log.
package http
