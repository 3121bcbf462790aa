package overview

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// However many viewers there are, a node reads a namespace at most once in snapshotAge, the live runs of the cluster at
// most once in liveAge for all namespaces, and what costs more, the load ahead and the causes of dead letters, at most
// once in slowAge. No viewer waits for those, unless they are older than slowLimit. See job.LateNow for the sum of the
// first two.
const (
	snapshotAge  = time.Second
	liveAge      = 500 * time.Millisecond
	slowAge      = 10 * time.Second
	slowLimit    = 30 * time.Second
	dueNextRange = 5 * time.Minute
	maxSnapshots = 1000            // namespaces; the snapshots of others are dropped
	readLimit    = 5 * time.Second // for one read, which no client can cancel, because others wait for it
)

// snapshots are the last overviews of a node.
type snapshots struct {
	mu   sync.Mutex
	of   map[uuid.UUID]*snapshot
	live liveSnapshot
}

// snapshot is the last overview of a namespace. Its lock is held while it is read, so that requests of that time wait
// for it.
type snapshot struct {
	mu   sync.Mutex
	at   time.Duration // elapsed time when reading began; 0: never
	body []byte
	etag string
	slow slowPart

	refreshing bool // the slow part is being read
}

// slowPart is how many occurrences are due soon, and the causes of dead letters.
type slowPart struct {
	at     time.Duration
	due    int64
	exact  bool
	causes []job.DeadGroup
}

type liveSnapshot struct {
	mu   sync.Mutex
	at   time.Duration
	live job.Live
}

func (s *snapshots) get(namespace uuid.UUID) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxSnapshots && s.of[namespace] == nil {
		s.of = map[uuid.UUID]*snapshot{}
	}
	if s.of[namespace] == nil {
		s.of[namespace] = &snapshot{}
	}
	return s.of[namespace]
}

// fresh is a response that may be sent.
type fresh struct {
	body []byte
	etag string
}

// snapshot returns the overview of a namespace, at most snapshotAge old.
func (h *Handlers) snapshot(ctx context.Context, namespace uuid.UUID) (fresh, error) {
	s := h.snapshots.get(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := h.Elapsed(); s.at == 0 || at-s.at >= snapshotAge {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		if err := h.read(limited, namespace, s); err != nil {
			return fresh{}, err
		}
		s.at = max(at, 1)
	}
	return fresh{s.body, s.etag}, nil
}

// read makes a new snapshot. The live runs are read after the queues and pauses, never before: a run that became late
// before the answer's time is in it.
func (h *Handlers) read(ctx context.Context, namespace uuid.UUID, s *snapshot) error {
	o, err := h.Views.Overview(ctx, namespace)
	if err != nil {
		return err
	}
	live, err := h.liveRuns(ctx)
	if err != nil {
		return err
	}
	if err := h.addRecent(ctx, &o); err != nil {
		return err
	}
	if err := h.keepSlow(ctx, &o, s); err != nil {
		return err
	}
	o.Causes = s.slow.causes
	s.body, s.etag, err = encode(wireOverview(&o, live, &s.slow))
	return err
}

// addRecent adds the newest runs of the jobs that fail.
func (h *Handlers) addRecent(ctx context.Context, o *job.Overview) error {
	jobs := make([]job.Job, len(o.Failing))
	for i := range jobs {
		jobs[i].ID = o.Failing[i].ID
	}
	recent, err := h.Views.RecentRuns(ctx, o.Namespace, jobs)
	for i := range recent {
		o.Failing[i].Recent = recent[i]
	}
	return err
}

// keepSlow reads the slow part if it is needed now, and otherwise while requests are answered.
func (h *Handlers) keepSlow(ctx context.Context, o *job.Overview, s *snapshot) (err error) {
	at := h.Elapsed()
	switch age := at - s.slow.at; {
	case s.slow.at == 0 || age >= slowLimit:
		s.slow, err = h.readSlow(ctx, o)
	case age >= slowAge && !s.refreshing:
		s.refreshing = true
		about := job.Overview{Namespace: o.Namespace, Now: o.Now, DeadLetters: o.DeadLetters}
		go h.refreshSlow(context.WithoutCancel(ctx), &about, s)
	}
	return err
}

func (h *Handlers) refreshSlow(ctx context.Context, o *job.Overview, s *snapshot) {
	limited, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	slow, err := h.readSlow(limited, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshing = false
	if err == nil { // otherwise the next request retries it, and in the end waits for it and reports the error
		s.slow = slow
	}
}

func (h *Handlers) readSlow(ctx context.Context, o *job.Overview) (slow slowPart, err error) {
	slow.at = max(h.Elapsed(), 1)
	from := o.Now.Truncate(time.Minute)
	load, err := h.Load.Load(ctx, job.LoadParams{
		Namespace: o.Namespace, From: from, To: from.Add(dueNextRange), Step: time.Minute,
	})
	if err != nil {
		return slow, err
	}
	slow.exact = load.Exact
	for _, n := range load.Counts {
		slow.due += n
	}
	if o.DeadLetters.Count == 0 {
		return slow, nil
	}
	dead, err := h.Views.SummarizeDeadLetters(ctx, job.DeadQueryBy{Namespace: o.Namespace, By: job.DeadByCause})
	slow.causes = dead.Groups[:min(len(dead.Groups), job.MaxCauses)]
	return slow, err
}

// liveRuns returns the live runs of the cluster, at most liveAge old.
func (h *Handlers) liveRuns(ctx context.Context) (*job.Live, error) {
	s := &h.snapshots.live
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := h.Elapsed(); s.at == 0 || at-s.at >= liveAge {
		live, err := h.Cluster.LiveRuns(ctx)
		if err != nil {
			return nil, err
		}
		s.live, s.at = live, max(at, 1)
	}
	live := s.live
	return &live, nil
}
