package broker

import (
	"context"

	"github.com/belfry-dev/belfry/internal/job"
)

// Deliver makes a config ready and has one message sent with it, within the
// attempt's timeout.
func Deliver[C any](ctx context.Context, a *job.Attempt, configs *Cache[C], send func(context.Context, C) job.Outcome) job.Outcome {
	if ctx.Err() != nil {
		return Stopping()
	}
	c, err := configs.Get(a.Config)
	if err != nil {
		return Mend(err)
	}
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = FallbackTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return send(remembering(ctx), c)
}
