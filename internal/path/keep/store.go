package keep

import "github.com/belfry-dev/belfry/internal/store"

// Store has the statements that remove what is over. It keeps state between calls, so a node has one.
type Store struct {
	db         store.All
	schedules  *store.Schedules
	finishPass jobPass
	removePass jobPass
}

// NewStore returns a Store.
func NewStore(db store.All, schedules *store.Schedules) *Store {
	return &Store{db: db, schedules: schedules}
}
