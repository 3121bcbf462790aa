// Package server is the REST API: what users reach Belfry by.
//
// Each operation is a Go type for what comes in, one for what goes out, and a
// method between them; huma makes the OpenAPI description of the same types,
// checks requests against it and writes RFC 9457 problems. Wire types stay here:
// the rest of Belfry speaks the words of internal/job.
//
// A request passes, in this order: limits of size and time → key → rate → role →
// the operation. The namespace comes from the key and from nowhere else.
package server
