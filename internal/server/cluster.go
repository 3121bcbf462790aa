package server

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Clusters is the part of the store that knows the nodes.
type Clusters interface {
	Cluster(ctx context.Context) (job.Cluster, error)
}

func (s *Server) registerCluster() {
	rest.Register(s.api, rest.Operation{
		ID: "get-cluster", Route: "GET /cluster", Summary: "Get the live nodes and what they work on",
		Role: access.Viewer,
	}, s.getCluster)
}

// Node is a live process of the cluster.
type Node struct {
	Name       string    `json:"name"`
	Session    string    `json:"session" doc:"Random per process: two nodes with the same name are two sessions."`
	StartedAt  time.Time `json:"started_at"`
	ExpiresAt  time.Time `json:"expires_at" doc:"When other nodes take over, unless it renews its session."`
	Draining   bool      `json:"draining" doc:"Whether it gets no more partitions."`
	Partitions []int16   `json:"partitions" doc:"Partitions that it owns."`
}

func wireNode(n job.Node) Node {
	return Node{
		Name: n.Name, Session: n.Session.String(), StartedAt: n.StartedAt, ExpiresAt: n.ExpiresAt, Draining: !n.Owns,
		Partitions: append([]int16{}, n.Partitions...),
	}
}

// Cluster is the live nodes and what they own.
type Cluster struct {
	Nodes         []Node    `json:"nodes"`
	Partitions    int       `json:"partitions" doc:"Number of partitions."`
	Unowned       []int16   `json:"unowned" doc:"Partitions without a live owner: their runs wait."`
	SchemaVersion int64     `json:"schema_version"`
	DatabaseTime  time.Time `json:"database_time" doc:"The clock that decides what is due."`
	Version       string    `json:"version" doc:"Of the node that answers."`
}

type getClusterOutput struct {
	Body Cluster
}

func (s *Server) getCluster(ctx context.Context, _ *struct{}) (*getClusterOutput, error) {
	c, err := s.opts.Cluster.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	out := &getClusterOutput{}
	b := &out.Body
	b.Nodes, b.Unowned = rest.Map(c.Nodes, wireNode), append([]int16{}, c.Unowned...)
	b.Partitions, b.SchemaVersion = job.Partitions, c.Schema
	b.DatabaseTime, b.Version = c.Now, s.opts.Version
	return out, nil
}
