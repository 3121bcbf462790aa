package pull

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/share"
)

const (
	// maxKnown is how many sessions and names of their handlers a node remembers, divided among namespaces.
	maxKnown = 250_000
	// keepUnused is how long a session that sends no request to this node is remembered if others need the space.
	keepUnused = 2 * time.Minute
)

// knownSessions is a cache of the sessions of workers, and of the handlers that are stored for them. A namespace that
// has its share forgets some of its own sessions, and never those of others.
type knownSessions struct {
	mu      sync.Mutex
	share   *share.Pool
	of      map[uuid.UUID]*namespaceSessions
	cleaned time.Duration // when unused sessions were forgotten, by clock.Elapsed
}

type namespaceSessions struct {
	byID map[uuid.UUID]*knownSession
	size int64 // of the share
}

type knownSession struct {
	job.WorkerSession
	handlers map[string]bool // that are stored, at most job.MaxNoted
	used     time.Duration   // by clock.Elapsed
}

func newKnownSessions() *knownSessions {
	return &knownSessions{share: share.New(maxKnown), of: map[uuid.UUID]*namespaceSessions{}, cleaned: clock.Elapsed()}
}

// find returns a session; nil: it is not known. The caller holds the lock.
func (k *knownSessions) find(namespace, id uuid.UUID) *knownSession {
	n := k.of[namespace]
	if n == nil || n.byID[id] == nil {
		return nil
	}
	n.byID[id].used = clock.Elapsed()
	return n.byID[id]
}

func (k *knownSessions) get(namespace, id uuid.UUID) (job.WorkerSession, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.find(namespace, id); s != nil {
		return s.WorkerSession, true
	}
	return job.WorkerSession{}, false
}

// add remembers a session, if there is space for it.
func (k *knownSessions) add(w job.WorkerSession) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.find(w.Namespace, w.ID) != nil || !k.take(w) {
		return
	}
	n := k.of[w.Namespace]
	if n == nil {
		n = &namespaceSessions{byID: map[uuid.UUID]*knownSession{}}
		k.of[w.Namespace] = n
	}
	n.byID[w.ID] = &knownSession{WorkerSession: w, handlers: map[string]bool{}, used: clock.Elapsed()}
	n.size++
}

// unstored returns those of the handlers that are not known to be stored, at most as many as are stored.
func (k *knownSessions) unstored(w job.WorkerSession, handlers []string) (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, most := k.find(w.Namespace, w.ID), job.MaxNoted
	if s != nil {
		most -= len(s.handlers)
	}
	for _, h := range handlers {
		if len(out) < most && (s == nil || !s.handlers[h]) {
			out = append(out, h)
		}
	}
	return out
}

// stored remembers that handlers are stored.
func (k *knownSessions) stored(w job.WorkerSession, handlers []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.find(w.Namespace, w.ID)
	for _, h := range handlers {
		if s == nil || len(s.handlers) == job.MaxNoted {
			return
		}
		if s.handlers[h] {
			continue
		}
		if !k.take(w) {
			return
		}
		s.handlers[h] = true
		k.of[w.Namespace].size++
	}
}

// take takes a part of the share of a namespace for one of its sessions. If there is none left, it makes space: first it
// forgets sessions that no worker uses, then others of the namespace, one by one and in random order: those that were
// used least recently send the next heartbeats. The caller holds the lock.
func (k *knownSessions) take(w job.WorkerSession) bool {
	take := func() bool { return k.share.Take(w.Namespace, 1) == nil }
	if take() {
		return true
	}
	if now := clock.Elapsed(); now-k.cleaned >= keepUnused/2 {
		k.cleaned = now
		k.forgetUnused(now - keepUnused)
		if take() {
			return true
		}
	}
	own := k.of[w.Namespace]
	if own == nil {
		return false
	}
	for id := range own.byID {
		if id == w.ID {
			continue
		}
		if k.remove(w.Namespace, id); take() {
			return true
		}
	}
	return false
}

// forgetUnused forgets sessions that were last used before then. The caller holds the lock.
func (k *knownSessions) forgetUnused(then time.Duration) {
	for namespace, n := range k.of {
		for id, s := range n.byID {
			if s.used < then {
				k.remove(namespace, id)
			}
		}
	}
}

// forget forgets a session that has ended.
func (k *knownSessions) forget(namespace, id uuid.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(namespace, id)
}

// remove removes a session. The caller holds the lock.
func (k *knownSessions) remove(namespace, id uuid.UUID) {
	n := k.of[namespace]
	if n == nil || n.byID[id] == nil {
		return
	}
	size := int64(1 + len(n.byID[id].handlers))
	delete(n.byID, id)
	if n.size -= size; n.size == 0 {
		delete(k.of, namespace)
	}
	k.share.Give(namespace, size)
}
