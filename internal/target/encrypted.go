package target

import (
	"context"
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

const encrypt = "use https"

// encrypted is a target that sends no secret over a network without encryption.
type encrypted struct{ Target }

func (e encrypted) Check(config json.RawMessage) error {
	if err := e.Target.Check(config); err != nil || !e.Uses(config).Clear {
		return err
	}
	return problem.New("target.config",
		"it would send a stored secret over the network without encryption, which this server does not allow", encrypt)
}

// Deliver checks again, because the job may have been saved when it was allowed.
func (e encrypted) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	if e.Uses(json.RawMessage(a.Config)).Clear {
		return job.Outcome{Kind: job.Failed, Message: "not sent: a stored secret would be sent over the network without " +
			"encryption, which this server does not allow (setting targets.secrets_in_clear); " + encrypt}
	}
	return e.Target.Deliver(ctx, a)
}
