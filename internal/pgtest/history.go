package pgtest

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// dropTries is how often DropHistory tries while another transaction, such as that of autovacuum, locks the history.
const dropTries = 20

// DropHistory drops the days that are older than keep, as a node does in as many rounds as it needs.
func DropHistory(ctx context.Context, store interface {
	DropHistory(ctx context.Context, keep time.Duration) ([]string, error)
}, keep time.Duration,
) (dropped []string, err error) {
	for range dropTries {
		var names []string
		names, err = store.DropHistory(ctx, keep)
		dropped = append(dropped, names...)
		if !errors.Is(err, job.ErrInUse) {
			break
		}
	}
	return dropped, err
}
