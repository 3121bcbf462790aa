package postgres

import (
	"embed"

	"github.com/belfry-dev/belfry/internal/store"
)

// The statements of the path before a run ends, one file each: plan, claim, admit,
// start, sweep, pull, and the permits they share. Each file says what its parameters
// are, and psql can PREPARE it as it is.
//
//go:embed query/*.sql
var queries embed.FS

var statement = store.Statements(queries, "query")
