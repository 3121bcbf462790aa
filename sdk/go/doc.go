// Package belfry is the client of Belfry's API.
//
// client.gen.go is generated from api/openapi.yaml: a type for each thing and a
// method for each operation. Client adds what every program needs: the key, tries
// again where that is safe, errors that say what is wrong, and pages as a loop.
//
// An answer that is not a success is an error, *Problem: switch on its Code, which
// never changes.
//
//	answer, err := client.GetJobWithResponse(ctx, "nightly-report")
//	if belfry.CodeOf(err) == "not_found" { … }
package belfry
