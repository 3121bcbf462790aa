package settings

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
)

// Names keeps the names of namespaces, which never change. Safe for concurrent use.
type Names struct {
	Read func(ctx context.Context, id uuid.UUID) (string, error)

	mu    sync.Mutex
	names map[uuid.UUID]string
}

// errUnread has no error of the database, because it becomes the message of a run, which viewers read.
var errUnread = errors.New("the name of the namespace could not be read from the database just now")

// Get returns the name of a namespace.
func (n *Names) Get(ctx context.Context, id uuid.UUID) (string, error) {
	n.mu.Lock()
	name, ok := n.names[id]
	n.mu.Unlock()
	if ok {
		return name, nil
	}
	name, err := n.Read(ctx, id)
	if err != nil {
		return "", errUnread
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names = map[uuid.UUID]string{}
	}
	n.names[id] = name
	return name, nil
}
