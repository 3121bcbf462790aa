package broker

import (
	"context"
	"strings"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// Deliver makes a config ready and has one message sent with it, within the
// attempt's timeout. What was secret in it is blotted out of what came back.
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
	var secrets []string
	out := send(context.WithValue(ctx, secretsKey{}, &secrets), c)
	text, cut := strings.CutSuffix(out.Message, more)
	if text = secret.Blot(text, secret.Forms(secrets)); cut {
		text += more
	}
	out.Message = text
	return out
}
