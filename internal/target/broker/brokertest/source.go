package brokertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
)

var (
	set   sync.Map // brokers by name
	names atomic.Int64
)

// Set sets a broker for all tests of a package, and returns its name.
func Set(b access.Broker) string {
	b.Name = fmt.Sprintf("b%d", names.Add(1))
	set.Store(b.Name, &b)
	return b.Name
}

// Brokers is a broker.Source that has what was set.
type Brokers struct{}

// Broker implements broker.Source.
func (Brokers) Broker(_ context.Context, _ uuid.UUID, name string) (*access.Broker, error) {
	found, ok := set.Load(name)
	if !ok {
		return nil, access.ErrNoBroker
	}
	return found.(*access.Broker), nil
}
