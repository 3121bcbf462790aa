package server

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const aboutBulkJobs = aboutBulk + "jobs that are created after the operation are not."

func (s *Server) registerBulkJobs() {
	registerBulk[PauseJobsRequest](s, job.PauseJobs, rest.Operation{
		ID: "pause-jobs", Route: "POST /jobs:pause", Summary: "Pause the jobs that match a filter",
		Description: aboutBulkJobs, Role: access.Operator,
		Example: `{"filter":{"label":["team=billing"]},"note":"the database moves","dry_run":true}`,
	})
	registerBulk[JobsRequest](s, job.ResumeJobs, rest.Operation{
		ID: "resume-jobs", Route: "POST /jobs:resume", Summary: "Resume the jobs that match a filter",
		Description: aboutBulkJobs, Role: access.Operator, Example: `{"filter":{"state":"paused"},"dry_run":true}`,
	})
	registerBulk[JobsRequest](s, job.TriggerJobs, rest.Operation{
		ID: "trigger-jobs", Route: "POST /jobs:trigger", Summary: "Run the jobs that match a filter once",
		Description: aboutBulkJobs, Role: access.Operator, Example: `{"filter":{"queue":"imports"},"rate":10,"dry_run":true}`,
	})
	registerBulk[JobsRequest](s, job.DeleteJobs, rest.Operation{
		ID: "delete-jobs", Route: "POST /jobs:delete", Summary: "Delete the jobs that match a filter",
		Description: aboutBulkJobs + " Their history stays.", Role: access.Editor,
		Example: `{"filter":{"state":"finished"},"dry_run":true}`,
	})
	registerBulk[RelabelJobsRequest](s, job.RelabelJobs, rest.Operation{
		ID: "relabel-jobs", Route: "POST /jobs:relabel", Summary: "Set and remove labels of the jobs that match a filter",
		Description: aboutBulkJobs + " Each job that changes gets a new version.", Role: access.Editor,
		Example: `{"filter":{"name":"invoice"},"set":{"team":"billing"},"remove":["owner"],"dry_run":true}`,
	})
	registerBulk[SpreadJobsRequest](s, job.SpreadJobs, rest.Operation{
		ID: "spread-jobs", Route: "POST /jobs:spread", Summary: "Spread the jobs that match a filter over time",
		Description: aboutBulkJobs + " Without jitter, H replaces minute 0 in cron expressions: each job runs at its own " +
			"minute of the same hour. With jitter, jobs with less get that much, unless they run at least that often. With " +
			"due_from and due_to, only jobs with an occurrence in that range change. Each job that changes gets a new " +
			"version, which :undo of the operation takes back. With dry_run, the response has the starts per minute " +
			"before and after.",
		Role: access.Editor, Example: `{"filter":{"label":["team=billing"]},"dry_run":true}`,
	})
}

// JobsFilter says which jobs an operation covers.
type JobsFilter struct {
	Label  []string `json:"label,omitempty" maxItems:"32" doc:"key=value. All of them must match."`
	State  string   `json:"state,omitempty" enum:"active,paused,finished"`
	Name   string   `json:"name,omitempty" maxLength:"200" doc:"Part of the name, ignoring case."`
	Target string   `json:"target,omitempty" maxLength:"32" doc:"The kind of target."`
	Queue  string   `json:"queue,omitempty" maxLength:"63" doc:"Name of the queue."`
}

// JobsRequest says which jobs an operation covers.
type JobsRequest struct {
	Filter *JobsFilter `json:"filter,omitempty" doc:"Which jobs. All fields must match."`
	BulkOptions
}

func (r *JobsRequest) set(context.Context, *Server) (set job.OperationSet, err error) {
	var f job.Filter
	if r.Filter != nil {
		f = job.Filter{Name: r.Filter.Name, Target: r.Filter.Target, Queue: r.Filter.Queue, State: jobs.State(r.Filter.State)}
		if f.Labels, err = jobs.Labels(r.Filter.Label); err != nil {
			return set, err
		}
	}
	if err := r.choose(!f.Empty()); err != nil {
		return set, err
	}
	if len(r.IDs) == 0 {
		return job.OperationSet{Jobs: &f}, nil
	}
	return job.OperationSet{IDs: r.IDs}, r.checkIDs(func(id string) error {
		_, err := job.ParseJobID(id)
		return err
	})
}

// PauseJobsRequest says which jobs to pause.
type PauseJobsRequest struct {
	JobsRequest
	Until time.Time `json:"until,omitzero" required:"false" doc:"When Belfry resumes them. Absent: a user has to."`
}

func (r *PauseJobsRequest) change() job.OperationChange {
	return job.OperationChange{Note: r.Note, Until: r.Until}
}

// RelabelJobsRequest says which labels of which jobs to change.
type RelabelJobsRequest struct {
	JobsRequest
	Set    map[string]string `json:"set,omitempty" doc:"Labels to set."`
	Remove []string          `json:"remove,omitempty" maxItems:"32" doc:"Keys of labels to remove."`
}

func (r *RelabelJobsRequest) change() job.OperationChange {
	return job.OperationChange{Note: r.Note, Set: r.Set, Remove: r.Remove}
}

// SpreadJobsRequest says how to spread which jobs.
type SpreadJobsRequest struct {
	JobsRequest
	Jitter rest.Duration `json:"jitter,omitempty" doc:"Set this jitter, up to 24h. Absent: H in place of minute 0." example:"5m"`

	DueFrom time.Time `json:"due_from,omitzero" required:"false" doc:"Only jobs that are due at this time or later, before due_to."`
	DueTo   time.Time `json:"due_to,omitzero" required:"false" doc:"The end of that range, exclusive."`
}

// set also checks the jitter.
func (r *SpreadJobsRequest) set(ctx context.Context, s *Server) (job.OperationSet, error) {
	jitter, err := r.Jitter.Parse("jitter", time.Second, "5m")
	switch {
	case err != nil:
		return job.OperationSet{}, err
	case jitter <= 0:
		return job.OperationSet{}, problem.New("jitter", "it is not positive", "leave it out for H in place of minute 0")
	}
	return r.JobsRequest.set(ctx, s)
}

func (r *SpreadJobsRequest) change() job.OperationChange {
	jitter, _ := r.Jitter.Parse("jitter", 0, "5m") // set has checked it
	return job.OperationChange{Note: r.Note, Jitter: job.Duration(jitter), DueFrom: r.DueFrom, DueTo: r.DueTo}
}
