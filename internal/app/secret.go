package app

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// resealPause is the pause between two searches for secrets that an old key has encrypted.
const resealPause = 10 * time.Minute

// resealOnce encrypts secrets of an old key again, with the key in use.
func (n *node) resealOnce(ctx context.Context) (time.Duration, error) {
	done, left, err := n.store.ResealSecrets(ctx)
	if done+left > 0 {
		n.log.Info("secrets resealed with the key in use", "done", done, "left", left)
	}
	return resealPause, err
}

// report returns where and with which token a target reports on an attempt that it has accepted.
func (n *node) report(a job.Attempt) (url, token string) {
	return n.config.API.URL + "/api/v1/runs/" + job.FormatRunID(a.Key), n.reportKeys.Keys().Token(access.ReportOf(a))
}
