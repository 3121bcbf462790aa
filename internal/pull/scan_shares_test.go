package pull

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// scanStore counts the feeds that are scanned, by queue. A scan that skips runs fails with fail, and all of them if
// failAll.
type scanStore struct {
	Store
	now     time.Time
	scanned map[int32]int
	depth   map[int32]int
	order   []int32 // of queues
	fail    error
	failAll bool
	failed  int32         // the queue whose scan failed last
	takes   time.Duration // a scan that skips runs
	full    map[int32]int // how many scans of a queue started at the beginning
}

func (s *scanStore) ScanDue(
	_ context.Context, feeds []job.Feed, o job.ScanParams,
) (now time.Time, first []time.Time, err error) {
	if s.fail != nil && (o.Limit > 1 || s.failAll) {
		s.failed = feeds[0].Queue
		return now, nil, s.fail
	}
	if o.Limit > 1 {
		<-time.After(s.takes)
	}
	for _, f := range feeds {
		if f.Mark.IsZero() && s.scanned[f.Queue] == 0 {
			s.full[f.Queue]++
		}
		s.scanned[f.Queue]++
		s.depth[f.Queue] = o.Limit
		s.order = append(s.order, f.Queue)
	}
	s.order = slices.Compact(s.order)
	return s.now, make([]time.Time, len(feeds)), nil
}

// scans has a node whose queues no loop serves.
type scans struct {
	t     *testing.T
	pull  *Puller
	store *scanStore
}

func newScans(t *testing.T) *scans {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &scans{t: t, store: &scanStore{now: now, full: map[int32]int{}}}
	s.pull = New(Options{Store: s.store, Bound: &clock.Bound{}})
	s.pull.Bound.Set(clock.Sample{Now: now})
	return s
}

// poll has polls wait for sets of handlers of a queue.
func (s *scans) poll(namespace uuid.UUID, queue int32, sets int) *queue {
	s.t.Helper()
	q := newQueue(s.pull, namespace, queue)
	s.pull.queues[queue] = q
	for i := range sets {
		_, err := q.enter(pollOf(i))
		require.NoError(s.t, err)
	}
	return q
}

// scan scans once, and returns how many feeds of each queue it has scanned.
func (s *scans) scan() map[int32]int {
	s.t.Helper()
	s.store.scanned, s.store.depth = map[int32]int{}, map[int32]int{}
	some, err := s.pull.scanOnce(s.t.Context())
	require.NoError(s.t, err)
	require.True(s.t, some)
	return s.store.scanned
}

// block has runs of a queue blocked for an hour, so that a scan has to pass them.
func block(q *queue, runs int16) {
	for i := range runs {
		k := job.Key{Seq: i}
		q.blocked[k.RunKey()] = &blockedRun{due: job.Due{Key: k, Handler: "h0-0"}, retry: clock.Elapsed() + time.Hour}
	}
}

const perPoll = job.MaxHandlers * (job.MaxPriority + 1)

// TestScansTakeTurns: a namespace whose workers wait for very many handlers has some of them scanned in each round, and
// does not delay those of others.
func TestScansTakeTurns(t *testing.T) {
	t.Parallel()
	s := newScans(t)
	attacker := uuid.New()
	for i := range int32(3) {
		s.poll(attacker, i, fullPolls)
	}
	s.poll(uuid.New(), 100, 1)
	all := map[int32]bool{}
	for range 3 {
		scanned := s.scan()
		require.Equal(t, perPoll, scanned[100])
		delete(scanned, 100)
		require.Len(t, scanned, 1)
		for q, feeds := range scanned {
			require.Equal(t, maxRoundFeeds, feeds)
			require.NotContains(t, all, q)
			all[q] = true
		}
	}
	require.Len(t, all, 3)
}

// TestAFailedScanIsTheFirstOfTheNextRound: other queues of the namespace, which have not had a turn for longer, do not
// come before it.
func TestAFailedScanIsTheFirstOfTheNextRound(t *testing.T) {
	t.Parallel()
	s := newScans(t)
	namespace := uuid.New()
	const queues = 3
	for i := range int32(queues) {
		s.poll(namespace, i, fullPolls)
	}
	for range queues {
		require.Len(t, s.scan(), 1)
	}
	s.store.fail, s.store.failAll = errors.New("the connection is lost"), true
	_, err := s.pull.scanOnce(t.Context())
	require.ErrorIs(t, err, s.store.fail)
	s.store.fail = nil
	require.Equal(t, map[int32]int{s.store.failed: maxRoundFeeds}, s.scan())
}

// TestBlockedRunsConcernTheirNamespaceOnly: a scan that has to pass many blocked runs reads more, and may fail. The feeds
// of other namespaces are in another statement.
func TestBlockedRunsConcernTheirNamespaceOnly(t *testing.T) {
	t.Parallel()
	s := newScans(t)
	q := s.poll(uuid.New(), 1, 1)
	s.poll(uuid.New(), 2, 1)
	block(q, 7)
	k := job.Key{Seq: 100}
	q.blocked[k.RunKey()] = &blockedRun{due: job.Due{Key: k, Handler: "of workers that have left"}}
	require.Equal(t, map[int32]int{1: perPoll, 2: perPoll}, s.scan())
	require.Equal(t, map[int32]int{1: 8, 2: 1}, s.store.depth)
	require.Equal(t, []int32{2, 1}, s.store.order)
	s.store.fail = errors.New("it takes too long")
	q.claimable = false
	require.Equal(t, map[int32]int{2: perPoll}, s.scan())
	require.True(t, q.claimable, "there may be others")
	delete(s.pull.queues, 2)
	_, err := s.pull.scanOnce(t.Context())
	require.ErrorIs(t, err, s.store.fail, "nothing was scanned")
}

// TestScansThatSkipRunsTakeTurns: in a round they take less than twice their limit, so that other namespaces have their
// next scan, however many namespaces have slow ones.
func TestScansThatSkipRunsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // only scans take time
		s := newScans(t)
		want := map[int32]int{100: 1}
		s.poll(uuid.New(), 100, 1)
		for i := range int32(6) {
			block(s.poll(uuid.New(), i, 1), 1)
			want[i] = 1
		}
		require.Len(t, s.scan(), len(want), "fast ones are in the same round")
		<-time.After(fullEvery)
		s.store.takes = deepLimit - time.Millisecond
		clear(s.store.full)
		for range 3 {
			begun := clock.Elapsed()
			scanned := s.scan()
			require.Less(t, clock.Elapsed()-begun, 2*deepLimit)
			require.Len(t, scanned, 3)
			require.Contains(t, scanned, int32(100))
			for id, q := range s.pull.queues {
				require.Equal(t, scanned[id] == 0, q.lastScan == 0, "those that had no turn begin")
			}
		}
		require.Equal(t, want, s.store.full, "each had a turn, from the beginning of its feeds")
	})
}

// failedRounds counts the failed rounds of loops.
type failedRounds struct {
	noObserver
	n int
}

func (f *failedRounds) Failed(string) { f.n++ }

// TestAFailedRoundOfScansIsCountedOnce: by the loop, if it gets an error. However many statements of the round failed.
func TestAFailedRoundOfScansIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := newScans(t)
	observed := &failedRounds{}
	s.pull.Observe = observed
	namespace := uuid.New()
	for i := range int32(2) {
		block(s.poll(namespace, i, maxFeeds/perPoll+1), 1) // a statement each
	}
	s.poll(uuid.New(), 2, 1)
	s.scan()
	require.Zero(t, observed.n)
	s.store.fail = errors.New("it takes too long")
	s.scan()
	require.Equal(t, 1, observed.n)
	delete(s.pull.queues, 2)
	_, err := s.pull.scanOnce(t.Context())
	require.ErrorIs(t, err, s.store.fail)
	require.Equal(t, 1, observed.n)
}

// TestHandlersAreDivided: the handlers that workers of one namespace wait for leave some to those of others.
func TestHandlersAreDivided(t *testing.T) {
	t.Parallel()
	s := newScans(t)
	attacker := uuid.New()
	var queues []*queue
	for i := range int32(maxNodeHandlers / maxHandlers * 4 / 5) {
		queues = append(queues, s.poll(attacker, i, fullPolls))
	}
	full := newQueue(s.pull, attacker, 99)
	_, err := full.enter(pollOf(0))
	require.ErrorIs(t, err, job.ErrTooManyHandlers)
	s.poll(uuid.New(), 100, 1)

	q := queues[0]
	leave := func() {
		for _, p := range slices.Clone(q.polls) {
			require.True(t, q.leave(p))
		}
	}
	leave()
	_, err = q.enter(pollOf(fullPolls))
	require.NoError(t, err, "handlers without polls make space")
	leave()
	_, err = full.enter(pollOf(0))
	require.NoError(t, err)
	used := s.pull.handlers.Used()
	require.True(t, q.end())
	require.Equal(t, used-job.MaxHandlers, s.pull.handlers.Used(), "and so does a queue that is forgotten")
}

// TestHandlersWithoutPollsMakeSpace: those of other queues of the namespace too.
func TestHandlersWithoutPollsMakeSpace(t *testing.T) {
	t.Parallel()
	s := newScans(t)
	s.pull.scanning = true // without a loop
	namespace := uuid.New()
	var last *queue
	for i := range int32(maxNodeHandlers / maxHandlers * 4 / 5) {
		last = s.poll(namespace, i, fullPolls)
	}
	enter := func(queue int32) error {
		t.Helper()
		clear(s.pull.forgot)
		_, err := s.pull.enter(job.WorkerSession{Namespace: namespace, Queue: queue}, pollOf(0))
		return err
	}
	require.ErrorIs(t, enter(99), job.ErrTooManyHandlers)
	require.NotContains(t, s.pull.queues, int32(99), "no loop would forget it")
	for _, p := range slices.Clone(last.polls[:3]) {
		require.True(t, last.leave(p))
	}
	other := newQueue(s.pull, namespace, 98)
	other.serving, s.pull.queues[98] = true, other // without a loop
	require.NoError(t, enter(98))
}

// TestANamespaceMakesSpaceWhateverOthersDo: each at most once per idlePause.
func TestANamespaceMakesSpaceWhateverOthersDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time passes only where the test says so
		p := New(Options{})
		mine, other := uuid.New(), uuid.New()
		require.True(t, p.forgetIdle(other))
		require.True(t, p.forgetIdle(mine))
		require.False(t, p.forgetIdle(mine))
		<-time.After(idlePause)
		require.True(t, p.forgetIdle(mine))
		require.Len(t, p.forgot, 1, "those of others are not kept")
	})
}
