package worker

import (
	"errors"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// errOver is what a request of a session that is over would be answered with.
var errOver = &belfry.Problem{Code: "session_expired", Title: "The session has expired", Status: 410}

// errUnsettled says that it is not known which session has the runs.
var errUnsettled = errors.New("worker: there is no answer yet that tells which session has the runs")
