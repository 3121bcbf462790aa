package cluster

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Clusters is the part of the store that knows the nodes, and counts what they work on.
type Clusters interface {
	Cluster(ctx context.Context) (job.Cluster, error)
	CountLive(ctx context.Context) (job.LiveCounts, error)
	QueueLoad(ctx context.Context, namespace uuid.UUID, queue int32) (job.QueueLoad, error)
	WorkerSessions(
		ctx context.Context, namespace uuid.UUID, queue string, after job.WorkerMark, limit int,
	) ([]job.WorkerInfo, error)
	BrokenSchedules(ctx context.Context, namespace uuid.UUID, limit int) ([]job.BrokenSchedule, bool, error)
}

func (h *handlers) registerCluster() {
	rest.Register(h.api, rest.Operation{
		ID: "get-cluster", Route: "GET /cluster", Summary: "Get the live nodes and what they work on",
		Description: "The response is at most a second old. It has nothing of other namespaces.",
		Role:        access.Viewer,
	}, h.getCluster)
	rest.Register(h.api, rest.Operation{
		ID: "list-broken-schedules", Route: "GET /schedules:broken", Summary: "List the schedules that cannot be planned",
		Description: "Nodes cannot compute the next time of such a schedule, for example because a node of an older version " +
			"cannot read it. Its jobs do not run, and nodes retry. The oldest problem comes first.",
		Role: access.Viewer,
	}, h.listBroken)
}

// Node is a live process of the cluster.
type Node struct {
	Name       string    `json:"name"`
	Session    string    `json:"session" doc:"Random per process: two nodes with the same name are two sessions."`
	StartedAt  time.Time `json:"started_at"`
	ExpiresAt  time.Time `json:"expires_at" doc:"When other nodes take over, unless it renews its session."`
	Draining   bool      `json:"draining" doc:"Whether it gets no more partitions."`
	Partitions []int16   `json:"partitions" doc:"Partitions that it owns."`
	Version    string    `json:"version" doc:"Version of Belfry."`
	TZData     string    `json:"tzdata" doc:"Identifies its time zone rules. Nodes should have the same."`
	Slots      *int      `json:"slots,omitempty" doc:"Attempts that it makes at most at the same time."`
	SlotsFree  *int      `json:"slots_free,omitempty" doc:"How many slots were free when it renewed its session."`

	KeepHistory string `json:"keep_history,omitempty" doc:"How long ended runs are kept." example:"720h0m0s"`
	LookAhead   string `json:"look_ahead,omitempty" doc:"How far ahead of their time runs are planned." example:"1m0s"`
	WorkerTTL   string `json:"worker_ttl,omitempty" doc:"After how long a worker without a heartbeat loses its runs." example:"15s"`
}

func wireNode(n job.Node) Node {
	return Node{
		Name: n.Name, Session: n.Session.String(), StartedAt: n.StartedAt, ExpiresAt: n.ExpiresAt, Draining: !n.Owns,
		Partitions: append([]int16{}, n.Partitions...), Version: n.Version, TZData: n.ZoneRules, Slots: n.Slots,
		SlotsFree: n.SlotsFree, KeepHistory: n.Settings.KeepHistory, LookAhead: n.Settings.LookAhead,
		WorkerTTL: n.Settings.WorkerTTL,
	}
}

// PartitionOwner is who works on a partition, and how late.
type PartitionOwner struct {
	Node        *int       `json:"node,omitempty" doc:"Index of its owner in nodes. Absent: no live node owns it."`
	Epoch       int64      `json:"epoch" doc:"Counts changes of the owner."`
	OldestDueAt *time.Time `json:"oldest_due_at,omitempty" doc:"Since when the oldest run waits that nothing keeps from starting."`
}

// Database is what the node that answers sees of the database server.
type Database struct {
	Version        string `json:"version"`
	Connections    int    `json:"connections" doc:"Open connections to this database, of all clients."`
	MaxConnections int    `json:"max_connections"`
}

// Cluster is the live nodes and what they own.
type Cluster struct {
	Nodes         []Node           `json:"nodes"`
	Partitions    int              `json:"partitions" doc:"Number of partitions."`
	Unowned       []int16          `json:"unowned" doc:"Partitions without a live owner: their runs wait."`
	Owners        []PartitionOwner `json:"owners" doc:"Of each partition, from 0."`
	LagMore       bool             `json:"lag_more" doc:"There are more live runs than were read: a partition may be later than it says."`
	SchemaVersion int64            `json:"schema_version"`
	DatabaseTime  time.Time        `json:"database_time" doc:"The clock that decides what is due."`
	ClockInDoubt  bool             `json:"clock_in_doubt" doc:"Whether nodes do not trust that clock, and start nothing."`
	Database      Database         `json:"database"`
	Version       string           `json:"version" doc:"Of the node that answers."`
}

type getClusterOutput struct {
	Body Cluster
}

func (h *handlers) getCluster(ctx context.Context, _ *struct{}) (*getClusterOutput, error) {
	c, err := h.cluster.Get(ctx, struct{}{}, h.Cluster.Cluster)
	if err != nil {
		return nil, err
	}
	index := map[uuid.UUID]int{}
	for i, n := range c.Nodes {
		index[n.Session] = i
	}
	out := &getClusterOutput{}
	b := &out.Body
	b.Nodes, b.Unowned = rest.Map(c.Nodes, wireNode), append([]int16{}, c.Unowned...)
	b.Owners = rest.Map(c.Owners, func(o job.PartitionOwner) PartitionOwner {
		p := PartitionOwner{Epoch: o.Epoch, OldestDueAt: rest.OptionalTime(o.OldestDueAt)}
		if i, ok := index[o.Owner]; ok {
			p.Node = &i
		}
		return p
	})
	b.Partitions, b.SchemaVersion, b.LagMore = job.Partitions, c.Schema, c.LagMore
	b.DatabaseTime, b.ClockInDoubt, b.Version = c.Now, c.ClockInDoubt, h.Version
	b.Database = Database{c.Database.Version, c.Database.Connections, c.Database.MaxConnections}
	return out, nil
}

// BrokenJob is a job whose schedule cannot be planned.
type BrokenJob struct {
	Job  string `json:"job" doc:"The job's id."`
	Name string `json:"name"`
}

// BrokenSchedule is a schedule that nodes cannot plan.
type BrokenSchedule struct {
	Schedule rest.JSON   `json:"schedule" doc:"The schedule as it is stored."`
	Problem  string      `json:"problem" doc:"Why it cannot be planned."`
	Since    time.Time   `json:"since"`
	RetryAt  *time.Time  `json:"retry_at,omitempty" doc:"When nodes try again."`
	Jobs     int64       `json:"jobs" doc:"Active jobs with this schedule, at most 1,000."`
	More     bool        `json:"more" doc:"There are more jobs."`
	Sample   []BrokenJob `json:"sample" doc:"Up to five of these jobs."`
}

// BrokenSchedules lists schedules that nodes cannot plan.
type BrokenSchedules struct {
	Items   []BrokenSchedule `json:"items"`
	Partial bool             `json:"partial" doc:"There may be more than the list has."`
}

type brokenOutput struct {
	Body BrokenSchedules
}

// maxBroken is how many broken schedules a response has.
const maxBroken = 100

func (h *handlers) listBroken(ctx context.Context, _ *struct{}) (*brokenOutput, error) {
	found, more, err := h.Cluster.BrokenSchedules(ctx, rest.Principal(ctx).Namespace, maxBroken)
	if err != nil {
		return nil, err
	}
	out := &brokenOutput{}
	out.Body.Partial = more
	out.Body.Items = rest.Map(found, func(b job.BrokenSchedule) BrokenSchedule {
		return BrokenSchedule{
			Schedule: rest.JSON(b.Schedule), Problem: b.Problem, Since: b.Since, RetryAt: rest.OptionalTime(b.RetryAt),
			Jobs: b.Jobs, More: b.More,
			Sample: rest.Map(b.Sample, func(j job.BrokenJob) BrokenJob { return BrokenJob{job.FormatJobID(j.ID), j.Name} }),
		}
	})
	return out, nil
}
