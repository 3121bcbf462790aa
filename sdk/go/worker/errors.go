package worker

import (
	"errors"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// errExpired is how the server responds to a request of an expired session.
var errExpired = &belfry.Problem{Code: "session_expired", Title: "The session has expired", Status: 410}

// errUnresolved says that it is unknown which session has the runs.
var errUnresolved = errors.New("worker: it is not known yet which session has the runs")

// unresolvedError is why the worker could not find out which session has the runs.
type unresolvedError struct{ err error }

func (e *unresolvedError) Error() string { return e.err.Error() }
func (e *unresolvedError) Unwrap() error { return e.err }
