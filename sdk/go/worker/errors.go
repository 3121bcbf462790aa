package worker

import belfry "github.com/belfry-dev/belfry/sdk/go"

// errOver is what a request of a session that is over would be answered with.
var errOver = &belfry.Problem{Code: "session_expired", Title: "The session has expired", Status: 410}
