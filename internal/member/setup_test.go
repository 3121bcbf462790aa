package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

const (
	ttl      = 3 * time.Second // with less, a busy machine loses sessions all the time
	interval = 200 * time.Millisecond
	patience = time.Minute // on a busy machine
	often    = 5 * time.Millisecond
)

// long is for members that must not lose their session, however busy the machine is.
func long(o *Options) { o.TTL = time.Hour }

// cluster is a database with members. From their callbacks it records which member works on each
// partition. No two may work on one at the same time.
type cluster struct {
	t      *testing.T
	store  *pgtest.Store
	scan   func(sql string, args []any, dest ...any)
	mu     sync.Mutex
	owner  map[int16]*node
	last   map[int16]*node // that gained it last
	epoch  map[int16]int64
	faults []string
}

func setup(t *testing.T) *cluster {
	t.Helper()
	pool := pgtest.New(t)
	c := &cluster{
		t: t, store: pgtest.NewStore(pool),
		owner: map[int16]*node{}, last: map[int16]*node{}, epoch: map[int16]int64{},
	}
	c.scan = func(sql string, args []any, dest ...any) {
		t.Helper()
		require.NoError(t, pool.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(dest...))
	}
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.faults)
	})
	return c
}

// node is a member of a cluster. Its store can be broken.
type node struct {
	*Member
	store  *faulty
	bound  clock.Bound
	cancel context.CancelFunc
	ended  chan struct{}
	onGain func(context.Context, []job.Ownership) // besides the cluster's
}

// add creates a member that does not run.
func (c *cluster) add(edit ...func(*Options)) *node {
	c.t.Helper()
	n := &node{store: &faulty{Store: c.store}, ended: make(chan struct{})}
	o := Options{
		Store: n.store, Clock: c.store, Name: "same", TTL: ttl, Interval: interval, Bound: &n.bound,
		OnGain: func(ctx context.Context, gained []job.Ownership) { c.gained(n, gained); n.gained(ctx, gained) },
		OnLose: func(lost []int16) { c.lost(n, lost) },
	}
	for _, e := range edit {
		e(&o)
	}
	var err error
	n.Member, err = New(o)
	require.NoError(c.t, err)
	return n
}

func (n *node) gained(ctx context.Context, gained []job.Ownership) {
	if n.onGain != nil {
		n.onGain(ctx, gained)
	}
}

// start creates a member that runs until the test ends or it is killed.
func (c *cluster) start(edit ...func(*Options)) *node {
	c.t.Helper()
	n := c.add(edit...)
	c.run(n)
	return n
}

func (c *cluster) run(n *node) {
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(c.t.Context())
	go func() {
		defer close(n.ended)
		if err := n.Run(ctx); err != nil {
			c.t.Error(err)
		}
	}()
	c.t.Cleanup(n.kill)
}

// kill ends a member without informing the database, as kill -9 does.
func (n *node) kill() {
	n.cancel()
	<-n.ended
}

// renewsOn requires that a member keeps renewing its session.
func (c *cluster) renewsOn(n *node) {
	c.t.Helper()
	session, before := n.Session(), n.store.renews.Load()
	require.Eventually(c.t, func() bool { return n.store.renews.Load() >= before+3 }, patience, often)
	require.True(c.t, n.Valid())
	require.Equal(c.t, session, n.Session())
}

func (c *cluster) gained(n *node, gained []job.Ownership) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range gained {
		if other := c.owner[o.Partition]; other != nil {
			c.faults = append(c.faults,
				fmt.Sprintf("partition %d: gained while another member works on it", o.Partition))
		}
		// The same epoch again: the member lost the partition and could not release it in the table.
		if o.Epoch < c.epoch[o.Partition] || o.Epoch == c.epoch[o.Partition] && c.last[o.Partition] != n {
			c.faults = append(c.faults,
				fmt.Sprintf("partition %d: epoch %d after %d", o.Partition, o.Epoch, c.epoch[o.Partition]))
		}
		c.owner[o.Partition], c.last[o.Partition], c.epoch[o.Partition] = n, n, o.Epoch
	}
}

func (c *cluster) lost(n *node, lost []int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range lost {
		if c.owner[p] != n {
			c.faults = append(c.faults, fmt.Sprintf("partition %d: lost by a member that has not gained it", p))
		}
		delete(c.owner, p)
	}
}

// awaitOwners waits until these members own everything, as assigned and each partition once: in the table,
// according to Owns, and according to their callbacks.
func (c *cluster) awaitOwners(nodes ...*node) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.ownedBy(nodes) }, patience, often)
}

func (c *cluster) ownedBy(nodes []*node) bool {
	s, err := c.store.Survey(c.t.Context())
	if err != nil {
		return false
	}
	by := map[uuid.UUID]*node{}
	var sessions []uuid.UUID
	for _, n := range nodes {
		by[n.Session()] = n
		sessions = append(sessions, n.Session())
	}
	right := assign(sessions, partitions)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range s.Ownerships {
		n := by[o.Owner]
		if o.Owner == uuid.Nil || n == nil || right[i] != o.Owner || !n.Owns(o.Partition) || c.owner[o.Partition] != n {
			return false
		}
	}
	return len(s.Ownerships) == partitions
}

var errBroken = errors.New("broken on purpose")

// faulty is a store that can be broken. Its functions get the name of the method that is called.
type faulty struct {
	Store
	calls  atomic.Int64
	renews atomic.Int64 // that succeeded
	survey atomic.Pointer[func(job.Survey)]
	before atomic.Pointer[func(context.Context, string) error]
	after  atomic.Pointer[func(string) error]
}

func (f *faulty) heal() {
	f.before.Store(nil)
	f.after.Store(nil)
}

func (f *faulty) call(ctx context.Context, method string, work func() error) error {
	f.calls.Add(1)
	if before := f.before.Load(); before != nil {
		if err := (*before)(ctx, method); err != nil {
			return err
		}
	}
	if err := work(); err != nil {
		return err
	}
	if after := f.after.Load(); after != nil {
		return (*after)(method)
	}
	return nil
}

func (f *faulty) Register(
	ctx context.Context, id uuid.UUID, name string, ttl time.Duration,
) (now clock.Sample, err error) {
	err = f.call(ctx, "register", func() (err error) { now, err = f.Store.Register(ctx, id, name, ttl); return err })
	return now, err
}

func (f *faulty) Renew(ctx context.Context, id uuid.UUID, ttl time.Duration, owns bool) (now clock.Sample, err error) {
	err = f.call(ctx, "renew", func() (err error) { now, err = f.Store.Renew(ctx, id, ttl, owns); return err })
	if err == nil {
		f.renews.Add(1)
	}
	return now, err
}

func (f *faulty) Unregister(ctx context.Context, id uuid.UUID) error {
	return f.call(ctx, "unregister", func() error { return f.Store.Unregister(ctx, id) })
}

func (f *faulty) Survey(ctx context.Context) (s job.Survey, err error) {
	err = f.call(ctx, "survey", func() (err error) { s, err = f.Store.Survey(ctx); return err })
	if seen := f.survey.Load(); err == nil && seen != nil {
		(*seen)(s)
	}
	return s, err
}

func (f *faulty) Take(ctx context.Context, me uuid.UUID, from []job.Ownership) (taken []job.Ownership, err error) {
	err = f.call(ctx, "take", func() (err error) { taken, err = f.Store.Take(ctx, me, from); return err })
	return taken, err
}

func (f *faulty) Release(ctx context.Context, me uuid.UUID, from []job.Ownership) error {
	return f.call(ctx, "release", func() error { return f.Store.Release(ctx, me, from) })
}
