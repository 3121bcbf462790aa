// Package server is the REST API: how users, workers and targets reach Belfry.
//
// Each operation is a Go type for its input, one for its output, and a method between them. The API
// reference, the validation of requests and the types of clients all come from these Go types. They
// stay in this package and those below it: the rest of Belfry uses the words of internal/job.
//
//	server        operations, one file per noun, and the stores they need
//	server/jobs   operations below /jobs and the JSON of a job
//	server/load   the operation on the load
//	server/rest   what all operations share: routing, authentication, limits, problems, pages
//
// The path of a request is described in server/rest.
package server
