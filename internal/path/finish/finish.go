package finish

import (
	"context"
	"embed"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// Each file says what its parameters are, and psql can PREPARE it as it is.
//
//go:embed *.sql
var files embed.FS

var statement = store.Statements(files, ".")

// Store writes the outcome of attempts. It keeps state between calls, so the loops of a node have one.
type Store struct {
	db         store.All
	namespaced store.Namespaced
	pauseJob   func(context.Context, job.ChangeParams, string) (job.Change, error)
	lastSearch lastSearch
	failing    *failingJobs
}

// New returns a Store. pauseJob pauses a job that failed too often.
func New(
	db store.All, namespaced store.Namespaced, pauseJob func(context.Context, job.ChangeParams, string) (job.Change, error),
) *Store {
	return &Store{db: db, namespaced: namespaced, pauseJob: pauseJob, failing: &failingJobs{}}
}

// PauseBy makes PauseFailing of another Store pause the jobs whose failures this one writes: nothing calls PauseFailing
// of the Store that the API has. Call it before the first use.
func (s *Store) PauseBy(other *Store) { s.failing = other.failing }
