// Package refusal collects requests that were refused with 403, for the audit log. Anyone with a key can cause
// as many as the limits of the API allow, so the log gets at most one entry for each key and minute, with a count, and
// requests never wait for it.
package refusal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
)

const (
	pause = time.Minute
	// maxKeys is how many keys of a namespace get an entry of their own in a minute. The others share one.
	maxKeys = 10
	// maxOperations is how many operations an entry names.
	maxOperations = 10
)

// Log collects refusals. It is safe for concurrent use.
type Log struct {
	// Write adds an entry for each refusal to the audit log of a namespace, all or none.
	Write func(ctx context.Context, namespace uuid.UUID, all []access.Refusal) error

	mu sync.Mutex
	of map[uuid.UUID]map[uuid.UUID]access.Refusal // by namespace and key; uuid.Nil: of further keys
}

// Note collects a request that was refused.
func (l *Log) Note(p access.Principal, operation string, from access.Origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(p.Namespace, access.Refusal{Principal: p, Origin: from, Count: 1, Operations: []string{operation}})
}

// add merges a refusal with what was collected of its key.
func (l *Log) add(namespace uuid.UUID, r access.Refusal) {
	if l.of == nil {
		l.of = map[uuid.UUID]map[uuid.UUID]access.Refusal{}
	}
	keys := l.of[namespace]
	if keys == nil {
		keys = map[uuid.UUID]access.Refusal{}
		l.of[namespace] = keys
	}
	if _, ok := keys[r.Principal.Key]; !ok && len(keys) >= maxKeys {
		r.Principal = access.Principal{}
	}
	has, ok := keys[r.Principal.Key]
	if !ok {
		keys[r.Principal.Key] = r
		return
	}
	has.Count += r.Count
	for _, o := range r.Operations {
		if len(has.Operations) < maxOperations && !slices.Contains(has.Operations, o) {
			has.Operations = append(has.Operations, o)
		}
	}
	keys[r.Principal.Key] = has
}

// Once writes what was collected, and returns the pause until the next time. It collects what could not be written again.
func (l *Log) Once(ctx context.Context) (time.Duration, error) {
	l.mu.Lock()
	all := l.of
	l.of = nil
	l.mu.Unlock()
	var failed error
	for namespace, keys := range all {
		refusals := slices.Collect(maps.Values(keys))
		if err := l.Write(ctx, namespace, refusals); err != nil {
			failed = errors.Join(failed, err)
			l.putBack(namespace, keys)
		}
	}
	return pause, failed
}

func (l *Log) putBack(namespace uuid.UUID, keys map[uuid.UUID]access.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newer := l.of[namespace]
	if l.of == nil {
		l.of = map[uuid.UUID]map[uuid.UUID]access.Refusal{}
	}
	l.of[namespace] = keys
	for _, r := range newer {
		l.add(namespace, r)
	}
}
