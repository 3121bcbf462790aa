// Package cluster has the operations on what does the work: nodes with their partitions, queues and workers.
package cluster

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/server/shared"
)

// Options has the parts of the store.
type Options struct {
	Queues  Queues
	Cluster Clusters
	Version string // of this node
}

type handlers struct {
	Options
	api     *rest.API
	live    shared.Reads[struct{}, job.LiveCounts]
	loads   shared.Reads[int32, job.QueueLoad] // by the id of the queue
	cluster shared.Reads[struct{}, job.Cluster]
}

// snapshotAge is how old the numbers of a response may be. All viewers of a node together cost one read in that time.
const snapshotAge = time.Second

// Register adds the operations to the API.
func Register(api *rest.API, o Options) {
	h := &handlers{Options: o, api: api}
	h.live.Age, h.live.Max = snapshotAge, 1
	h.loads.Age, h.loads.Max = snapshotAge, 1000
	h.cluster.Age, h.cluster.Max = snapshotAge, 1
	h.registerQueues()
	h.registerWorkers()
	h.registerCluster()
}
