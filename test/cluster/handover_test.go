package cluster_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// handOver moves a quarter of the partitions to another live node, with the two statements that nodes use: release in
// the name of the owner, and take in the name of the other. This is harder than a normal handover, in which the old
// owner stops its work on a partition first. Here both owners continue until they notice, and the new one finds that
// the partition should belong to another node and hands it on. So each forced change causes one or two real ones.
func (c *cluster) handOver(ctx context.Context) (moved int, err error) {
	s, err := c.store.Survey(ctx)
	if err != nil || len(s.Sessions) < 2 {
		return 0, err
	}
	to := s.Sessions[rand.IntN(len(s.Sessions))].ID
	from := map[uuid.UUID][]job.Ownership{}
	for _, o := range s.Ownerships {
		live := slices.ContainsFunc(s.Sessions, func(x job.Session) bool { return x.ID == o.Owner })
		if live && o.Owner != to && rand.IntN(4) == 0 {
			from[o.Owner] = append(from[o.Owner], o)
		}
	}
	for owner, partitions := range from {
		if err := c.store.Release(ctx, owner, partitions); err != nil {
			return moved, err
		}
		for i := range partitions {
			partitions[i].Owner = uuid.Nil
			partitions[i].Epoch++
		}
		taken, err := c.store.Take(ctx, to, partitions)
		if err != nil {
			return moved, err
		}
		moved += len(taken)
	}
	return moved, nil
}

// TestHandover: the owner of partitions changes every 200 ms, while runs become due. No run is missed, and none is
// delivered twice.
func TestHandover(t *testing.T) {
	t.Parallel()
	f := form{faults: 50, seconds: 10, jobs: 100}.long()
	c := newCluster(t, setup{nodes: 3, env: steady})
	c.create(f.jobs, f.duration(), unhurried)
	moved := 0
	every(f.duration(), f.faults, func(int) {
		n, err := c.handOver(t.Context())
		if store.Code(err) != "55P03" { // a claim took longer than a second: a node retries later
			require.NoError(t, err)
		}
		moved += n
	})
	c.finish(patience)
	r := c.check()
	t.Logf("handovers=%d, of %d partitions", f.faults, moved)
	t.Logf("lateness %s", c.lateness())
	t.Log(r)
	c.clean(r)
	require.Zero(t, r.duplicates)
	require.GreaterOrEqual(t, moved, f.faults)
}
