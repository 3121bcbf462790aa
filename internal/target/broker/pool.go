package broker

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	openTimeout = 10 * time.Second // for one try, all servers together
	idleTimeout = time.Minute
	// MaxConnections of one kind of broker from one node.
	MaxConnections = 500
	firstBackoff   = 100 * time.Millisecond
	maxBackoff     = 2 * time.Second
	forgetAfter    = time.Minute // a failure
)

// ErrFull says that all places for connections are in use.
var ErrFull error = OwnError(fmt.Sprintf("this node has %d connections to brokers of this kind, and none is idle; use fewer different settings of connection", MaxConnections))

// ErrClosed says that the pool is closed: the node stops.
var ErrClosed error = OwnError("the node is stopping")

// Pool shares connections by their key. The zero value with Close set is ready.
type Pool[C any] struct {
	// Shut ends a connection. It is called once for each, while nobody uses it.
	Shut func(C)
	// Most and Idle are other bounds than MaxConnections and a minute, for tests.
	Most int
	Idle time.Duration

	mu     sync.Mutex
	by     map[string]*place[C]
	clock  uint64 // counts uses
	closed bool
}

// place is where a connection is, will be, or could not be made.
type place[C any] struct {
	pool *Pool[C]
	key  string

	ready chan struct{} // closed when opening has ended
	conn  C
	err   error

	// All below are guarded by the pool's mutex.
	open     bool
	gone     bool // not in the pool any more: ended when the last user lets go
	users    int
	last     uint64
	failures int
	again    chan struct{} // closed when it may be tried again
	timer    *time.Timer   // closes what is idle, and forgets failures
}

// Lease is the use of a connection.
type Lease[C any] struct {
	Conn  C
	place *place[C]
}

// Get gives the connection with that key, and opens it if there is none. Only one
// is opened at a time for a key, and all who ask meanwhile wait for it; after a
// failure it is tried again when some time has passed.
func (p *Pool[C]) Get(ctx context.Context, key string, open func(ctx context.Context) (C, error)) (*Lease[C], error) {
	for {
		at, wait, err := p.find(key, open)
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
			at.release()
			return nil, ctx.Err()
		case <-at.ready:
		}
		if at.err != nil {
			at.release()
			return nil, at.err
		}
		return &Lease[C]{Conn: at.conn, place: at}, nil
	}
}

// find the place of a key, with one more user; or what to wait for before asking again.
func (p *Pool[C]) find(key string, open func(ctx context.Context) (C, error)) (at *place[C], wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	failures := 0
	if at = p.by[key]; at != nil && at.again != nil {
		select {
		case <-at.again:
			failures = at.failures
			p.drop(at)
			at = nil
		default:
			return nil, at.again, nil
		}
	}
	if at == nil {
		if !p.room() {
			return nil, nil, ErrFull
		}
		at = &place[C]{pool: p, key: key, ready: make(chan struct{}), failures: failures}
		if p.by == nil {
			p.by = make(map[string]*place[C])
		}
		p.by[key] = at
		at.users++ // the opening itself
		go at.fill(open)
	}
	at.users++
	p.clock++
	at.last = p.clock
	at.stopTimer()
	return at, nil, nil
}

// fill opens the connection. Not under the context of who asked first: others wait too.
func (at *place[C]) fill(open func(ctx context.Context) (C, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	conn, err := open(ctx)
	p := at.pool
	p.mu.Lock()
	at.conn, at.err, at.open = conn, err, err == nil
	if err != nil && !at.gone {
		at.failures++
		at.again = make(chan struct{})
		again := at.again
		at.timer = time.AfterFunc(min(firstBackoff<<min(at.failures-1, 10), maxBackoff), func() { close(again); at.forgetLater() })
	}
	p.mu.Unlock()
	close(at.ready)
	at.release()
}

// forgetLater drops the memory of a failure that nobody has asked about for a while.
func (at *place[C]) forgetLater() {
	at.pool.mu.Lock()
	defer at.pool.mu.Unlock()
	if !at.gone {
		at.timer = time.AfterFunc(forgetAfter, func() {
			at.pool.mu.Lock()
			defer at.pool.mu.Unlock()
			at.pool.drop(at)
		})
	}
}

// room makes sure that there is a place for one more.
func (p *Pool[C]) room() bool {
	most := p.Most
	if most == 0 {
		most = MaxConnections
	}
	if len(p.by) < most {
		return true
	}
	var oldest *place[C]
	for _, at := range p.by {
		if at.users == 0 && (oldest == nil || at.last < oldest.last) {
			oldest = at
		}
	}
	if oldest == nil {
		return false
	}
	p.drop(oldest)
	return true
}

// drop takes a place out of the pool. It ends when its last user has let go.
func (p *Pool[C]) drop(at *place[C]) {
	if at.gone {
		return
	}
	at.gone = true
	at.stopTimer()
	if p.by[at.key] == at {
		delete(p.by, at.key)
	}
	at.end()
}

func (at *place[C]) stopTimer() {
	if at.timer != nil && at.again == nil {
		at.timer.Stop()
		at.timer = nil
	}
}

// end what is gone and not used. It is called with the mutex held; the client's
// own end may take a while.
func (at *place[C]) end() {
	if at.gone && at.users == 0 && at.open {
		at.open = false
		go at.pool.Shut(at.conn)
	}
}

func (at *place[C]) release() {
	p := at.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	at.users--
	at.end()
	if at.users == 0 && at.open && !at.gone {
		idle := p.Idle
		if idle == 0 {
			idle = idleTimeout
		}
		at.timer = time.AfterFunc(idle, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if at.users == 0 {
				p.drop(at)
			}
		})
	}
}

// Release ends the use. broken: the connection is of no use any more, and the
// next who asks gets another.
func (l *Lease[C]) Release(broken bool) {
	if broken {
		l.place.pool.mu.Lock()
		l.place.pool.drop(l.place)
		l.place.pool.mu.Unlock()
	}
	l.place.release()
}

// Len is how many there are, failures that are remembered too.
func (p *Pool[C]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.by)
}

// Close lets go of all connections: those in use when their users let go.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, at := range p.by {
		p.drop(at)
	}
}
