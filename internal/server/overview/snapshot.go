package overview

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/shared"
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
	maxSnapshots = 1000 // namespaces; the snapshots of others are dropped
)

// snapshots are the last overviews of a node.
type snapshots struct {
	whole shared.Reads[uuid.UUID, fresh]
	slow  shared.Reads[uuid.UUID, slowPart]
	live  shared.Reads[struct{}, job.Live]
}

func (s *snapshots) init(elapsed func() time.Duration) {
	s.whole.Age, s.whole.Max, s.whole.Elapsed = snapshotAge, maxSnapshots, elapsed
	s.slow.Age, s.slow.Max, s.slow.Elapsed = slowAge, maxSnapshots, elapsed
	s.slow.Stale = slowLimit
	s.live.Age, s.live.Max, s.live.Elapsed = liveAge, 1, elapsed
}

// fresh is a response that may be sent.
type fresh struct {
	body []byte
	etag string
}

// slowPart is how many occurrences are due soon, and the causes of dead letters.
type slowPart struct {
	due    int64
	exact  bool
	causes []job.DeadGroup
}

// snapshot returns the overview of a namespace, at most snapshotAge old.
func (h *Handlers) snapshot(ctx context.Context, namespace uuid.UUID) (fresh, error) {
	return h.snapshots.whole.Get(ctx, namespace, func(ctx context.Context) (fresh, error) { return h.read(ctx, namespace) })
}

// read makes a new snapshot. The live runs are read last: a run that became late before the answer's time is in it, and
// what takes long before does not make them old.
func (h *Handlers) read(ctx context.Context, namespace uuid.UUID) (f fresh, err error) {
	o, err := h.Views.Overview(ctx, namespace)
	if err != nil {
		return f, err
	}
	if err := h.addRecent(ctx, &o); err != nil {
		return f, err
	}
	about := job.Overview{Namespace: o.Namespace, DeadLetters: o.DeadLetters}
	slow, err := h.snapshots.slow.Get(ctx, namespace, func(ctx context.Context) (slowPart, error) {
		return h.readSlow(ctx, &about)
	})
	if err != nil {
		return f, err
	}
	live, err := h.snapshots.live.Get(ctx, struct{}{}, h.Cluster.LiveRuns)
	if err != nil {
		return f, err
	}
	o.Causes = slow.causes
	f.body, f.etag, err = encode(wireOverview(&o, &live, &slow))
	return f, err
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

func (h *Handlers) readSlow(ctx context.Context, o *job.Overview) (slow slowPart, err error) {
	load, err := h.Load.Load(ctx, job.LoadParams{Namespace: o.Namespace, Ahead: dueNextRange})
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
