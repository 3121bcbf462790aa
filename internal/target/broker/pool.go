package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/share"
)

const (
	openTimeout = 10 * time.Second // for one try, all servers together
	idleTimeout = time.Minute
	// MaxConnections is the maximum number of connections to one kind of broker from one node, of all namespaces.
	MaxConnections = 500
	firstBackoff   = 100 * time.Millisecond
	maxBackoff     = 2 * time.Second
	forgetAfter    = time.Minute // how long a failure is remembered
)

// ErrFull says that all connections that a namespace may have are in use.
var ErrFull error = OwnError(fmt.Sprintf("the namespace has its share of the %d connections that a node opens to "+
	"brokers of this kind, and none of them is idle; use fewer different connection settings", MaxConnections))

// ErrClosed says that the pool is closed because the node is stopping.
var ErrClosed error = OwnError("the node is stopping")

// Pool shares connections by key, and divides their number among namespaces: see share.Pool. The zero value with
// CloseConn set is ready to use.
type Pool[N any] struct {
	// CloseConn closes a connection. It is called once for each, while no delivery uses it.
	CloseConn func(N)
	// Limit overrides MaxConnections, for tests.
	Limit int

	mu      sync.Mutex
	entries map[string]*entry[N]
	shares  *share.Pool // counts entries, also those removed while they are in use
	uses    uint64
	closed  bool
}

// Retiring is implemented by connections that can end by themselves. One that is retired still serves the
// deliveries that use it, and gets no others. Retired must not block.
type Retiring interface{ Retired() bool }

func retired(conn any) bool {
	r, ok := conn.(Retiring)
	return ok && r.Retired()
}

// entry is a connection that is open, is being opened, or could not be opened.
type entry[N any] struct {
	pool      *Pool[N]
	namespace uuid.UUID
	key       string

	ready chan struct{} // closed when opening has ended
	conn  N
	err   error

	// The pool's mutex guards the fields below.
	open     bool
	removed  bool // not in the pool any more: ends once its last user has released it
	ended    bool
	users    int
	lastUse  uint64
	failures int
	retry    chan struct{} // set after a failure; closed when the next try may start
	timer    *time.Timer   // closes an idle connection, or forgets a failure
}

// Lease is the use of a connection by one delivery.
type Lease[N any] struct {
	Conn  N
	entry *entry[N]
}

// Get returns the connection with that key and opens it if there is none. The pool opens one connection per
// key at a time, and all callers wait for it. After a failure, callers wait until the backoff has passed and
// then try again. Of each namespace, keys are different.
func (p *Pool[N]) Get(ctx context.Context, namespace uuid.UUID, key string, open OpenFunc[N]) (*Lease[N], error) {
	for {
		e, wait, err := p.acquire(namespace, key, open)
		switch {
		case err != nil:
			return nil, err
		case wait != nil:
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-wait:
				continue
			}
		}
		select {
		case <-ctx.Done():
			e.release()
			return nil, ctx.Err()
		case <-e.ready:
		}
		if e.err != nil {
			e.release()
			return nil, e.err
		}
		return &Lease[N]{Conn: e.conn, entry: e}, nil
	}
}

// acquire returns the entry of a key, with one more user, or a channel to wait for before the next call.
func (p *Pool[N]) acquire(
	namespace uuid.UUID, key string, open OpenFunc[N],
) (e *entry[N], wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	failures := 0
	if e = p.entries[key]; e != nil && e.retry != nil {
		select {
		case <-e.retry:
			failures = e.failures
			p.remove(e)
			e = nil
		default:
			return nil, e.retry, nil
		}
	}
	if e != nil && e.open && retired(e.conn) {
		p.remove(e)
		e = nil
	}
	if e == nil {
		if !p.makeCapacity(namespace) {
			return nil, nil, ErrFull
		}
		e = &entry[N]{pool: p, namespace: namespace, key: key, ready: make(chan struct{}), failures: failures}
		if p.entries == nil {
			p.entries = make(map[string]*entry[N])
		}
		p.entries[key] = e
		e.users++ // the opening itself
		go e.connect(open)
	}
	e.users++
	p.uses++
	e.lastUse = p.uses
	e.stopTimer()
	return e, nil, nil
}

// connect opens the connection. It does not use the context of the first caller, because others wait too.
func (e *entry[N]) connect(open OpenFunc[N]) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	conn, err := open(ctx)
	p := e.pool
	p.mu.Lock()
	e.conn, e.err, e.open = conn, err, err == nil
	if err != nil && !e.removed {
		e.failures++
		retry := make(chan struct{})
		e.retry = retry
		e.timer = time.AfterFunc(min(firstBackoff<<min(e.failures-1, 10), maxBackoff), func() {
			close(retry)
			e.forgetLater()
		})
	}
	p.mu.Unlock()
	close(e.ready)
	e.release()
}

// forgetLater removes the memory of a failure after forgetAfter.
func (e *entry[N]) forgetLater() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	if !e.removed {
		e.timer = time.AfterFunc(forgetAfter, func() {
			e.pool.mu.Lock()
			defer e.pool.mu.Unlock()
			e.pool.remove(e)
		})
	}
}

// makeCapacity counts one more connection of a namespace and reports whether it may be opened. If there are too many,
// it removes the idle one of the namespace that was used least recently, or of any namespace if the pool is full.
func (p *Pool[N]) makeCapacity(namespace uuid.UUID) bool {
	if p.shares == nil {
		p.shares = share.New(int64(cmp.Or(p.Limit, MaxConnections)))
	}
	for {
		err := p.shares.Take(namespace, 1)
		if err == nil {
			return true
		}
		oldest := p.oldestIdle(func(e *entry[N]) bool { return e.namespace == namespace })
		if oldest == nil && errors.Is(err, share.ErrFull) {
			oldest = p.oldestIdle(func(*entry[N]) bool { return true })
		}
		if oldest == nil {
			return false
		}
		p.remove(oldest)
	}
}

func (p *Pool[N]) oldestIdle(among func(*entry[N]) bool) (oldest *entry[N]) {
	for _, e := range p.entries {
		if e.users == 0 && among(e) && (oldest == nil || e.lastUse < oldest.lastUse) {
			oldest = e
		}
	}
	return oldest
}

// remove takes an entry out of the pool. Its connection is closed once its last user has released it.
func (p *Pool[N]) remove(e *entry[N]) {
	if e.removed {
		return
	}
	e.removed = true
	e.stopTimer()
	if p.entries[e.key] == e {
		delete(p.entries, e.key)
	}
	e.endUnused()
}

func (e *entry[N]) stopTimer() {
	if e.timer != nil && e.retry == nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// endUnused ends a removed entry without users: it does not count any more, and its connection is closed. The caller
// holds the mutex, so the client, which may take a while, runs in a goroutine.
func (e *entry[N]) endUnused() {
	if !e.removed || e.users > 0 || e.ended {
		return
	}
	e.ended = true
	e.pool.shares.Give(e.namespace, 1)
	if e.open {
		go e.pool.CloseConn(e.conn)
	}
}

func (e *entry[N]) release() {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	e.endUnused()
	if e.users == 0 && e.open && !e.removed {
		e.timer = time.AfterFunc(idleTimeout, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if e.users == 0 {
				p.remove(e)
			}
		})
	}
}

// Release ends the use of the connection. If it is broken, the next caller of Get gets another one.
func (l *Lease[N]) Release(broken bool) {
	if broken {
		l.entry.pool.mu.Lock()
		l.entry.pool.remove(l.entry)
		l.entry.pool.mu.Unlock()
	}
	l.entry.release()
}

// Len returns the number of connections, including remembered failures.
func (p *Pool[N]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// Close closes all connections. Those in use are closed once their users have released them.
func (p *Pool[N]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, e := range p.entries {
		p.remove(e)
	}
}
