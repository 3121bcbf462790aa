package worker

import (
	"errors"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// errOver is what a request of a session that is over would be answered with.
var errOver = &belfry.Problem{Code: "session_expired", Title: "The session has expired", Status: 410}

// errUnsettled says that it is not known which session has the runs.
var errUnsettled = errors.New("worker: there is no answer yet that tells which session has the runs")

// unsettledError is why it could not be asked for.
type unsettledError struct{ err error }

func (e *unsettledError) Error() string { return e.err.Error() }
func (e *unsettledError) Unwrap() error { return e.err }
