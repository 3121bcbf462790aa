// Package rest is what all operations of the API share. It knows HTTP and huma; it knows no store
// and no operation.
//
// A request passes these steps, in this order:
//
//	observe       gives it an id, counts it, logs it if it fails        record.go
//	limit         bounds the requests in progress and their time        limit.go
//	route         finds the operation: path, method and verb            route.go
//	authenticate  checks the key or run token, the rate and the role    auth.go
//	checkRequest  rejects what the operation would ignore               request.go
//	admitBody     reads the body within limits, and validates it        body.go
//	huma          decodes the input into its Go type
//	handler       the operation itself, given to Register
//
// Each error of these steps becomes a Problem (RFC 9457). problem.go has the one table from error
// codes to HTTP statuses, and the one mapping from errors of the store to codes.
package rest
