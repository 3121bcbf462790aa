package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// canaryJob is the id of the canary: a job that does nothing every 10 s. It takes the whole path of a run, so that a
// cluster without other traffic has metrics too, and alerts on lateness have data.
var canaryJob = uuid.MustParse("00000000-0000-7000-8000-00000000ca01")

func canaryDefinition() job.Definition {
	return job.Definition{
		Name: "canary", Description: "Kept by the nodes: it does nothing, and shows that runs start on time.",
		Schedule: schedule.Spec{Every: "10s"},
		Target:   job.Target{Kind: "noop"},
		Policy:   job.Policy{Missed: job.Missed{Policy: job.MissedSkip}},
	}
}

// keepCanary creates the canary or gives it its definition again. If the setting is off, it removes the canary. A node
// does that when it starts. Users cannot change it: see authorize in internal/server/rest.
func keepCanary(ctx context.Context, on bool, db *postgres.DB) error {
	jobs, change := db.API(), job.ChangeParams{Namespace: access.CanaryNamespace, ID: canaryJob, Actor: "belfry"}
	if !on {
		_, err := jobs.Job(ctx, change.Namespace, change.ID)
		if errors.Is(err, job.ErrNotFound) {
			return nil
		}
		_, deleted := jobs.DeleteJob(ctx, change)
		return errors.Join(err, deleted)
	}
	if created, err := db.Admin().CreateCanary(ctx); err != nil || !created {
		return errors.Join(err, canaryTaken(created))
	}
	_, err := jobs.CreateJob(ctx, job.CreateParams{
		Namespace: access.CanaryNamespace, ID: canaryJob, Definition: canaryDefinition(), Actor: "belfry",
	})
	if !errors.Is(err, job.ErrConflict) {
		return err
	}
	_, err = jobs.UpdateJob(ctx, job.UpdateParams{ // it changes nothing if the definition is the same
		Namespace: access.CanaryNamespace, ID: canaryJob, Definition: canaryDefinition(), Actor: "belfry",
	})
	return err
}

func canaryTaken(created bool) error {
	if created {
		return nil
	}
	return fmt.Errorf("the namespace %s is not the one of the canary; set canary to false", access.CanaryName)
}
