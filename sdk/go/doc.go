// Package belfry is the client of Belfry's API.
//
// client.gen.go is generated from api/openapi.yaml: a type for each object and a method for each operation.
// [Client] adds what every program needs: the API key, retries where they are safe, errors that say what is
// wrong, and iteration over pages.
//
// A response that is not a success is an error of type *[Problem]. Switch on its Code, which never changes.
//
//	response, err := client.GetJobWithResponse(ctx, "nightly-report")
//	if belfry.CodeOf(err) == "not_found" { … }
package belfry
