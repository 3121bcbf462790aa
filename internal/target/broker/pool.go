package broker

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// OpenTimeout is how long one try to connect may take, all servers together.
	OpenTimeout  = 10 * time.Second
	idleTimeout  = time.Minute
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 2 * time.Second
	forgetAfter  = time.Minute // how long a failure is remembered
)

// ErrClosed says that the pool is closed because the node is stopping.
var ErrClosed = errors.New("the node is stopping")

// OpenFunc opens a connection.
type OpenFunc[N any] func(ctx context.Context) (N, error)

// Pool shares connections by key. The zero value with CloseConn set is ready to use.
type Pool[N any] struct {
	// CloseConn closes a connection. It is called once for each, while no delivery uses it.
	CloseConn func(N)

	mu      sync.Mutex
	entries map[string]*entry[N]
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
	pool *Pool[N]
	key  string

	ready chan struct{} // closed when opening has ended
	conn  N
	err   error

	// The pool's mutex guards the fields below.
	open     bool
	removed  bool // not in the pool any more: closed once its last user has released it
	users    int
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
// then try again.
func (p *Pool[N]) Get(ctx context.Context, key string, open OpenFunc[N]) (*Lease[N], error) {
	for {
		e, wait, err := p.acquire(key, open)
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
func (p *Pool[N]) acquire(key string, open OpenFunc[N]) (e *entry[N], wait <-chan struct{}, err error) {
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
		e = &entry[N]{pool: p, key: key, ready: make(chan struct{}), failures: failures}
		if p.entries == nil {
			p.entries = make(map[string]*entry[N])
		}
		p.entries[key] = e
		e.users++ // the opening itself
		go e.connect(open)
	}
	e.users++
	e.stopTimer()
	return e, nil, nil
}

// connect opens the connection. It does not use the context of the first caller, because others wait too.
func (e *entry[N]) connect(open OpenFunc[N]) {
	ctx, cancel := context.WithTimeout(context.Background(), OpenTimeout)
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
	e.closeUnused()
}

func (e *entry[N]) stopTimer() {
	if e.timer != nil && e.retry == nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// closeUnused closes the connection of a removed entry without users. The caller holds the mutex, so the client, which
// may take a while, runs in a goroutine.
func (e *entry[N]) closeUnused() {
	if e.removed && e.users == 0 && e.open {
		e.open = false
		go e.pool.CloseConn(e.conn)
	}
}

func (e *entry[N]) release() {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	e.closeUnused()
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
