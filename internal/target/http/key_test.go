package http_test

import (
	nethttp "net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// The job can set its own idempotency key. The run's id does not change.
func TestOwnIdempotencyKey(t *testing.T) {
	t.Parallel()
	var got nethttp.Header
	target, url := setup(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) { got = r.Header })
	a := to(url)
	a.OwnKey = "order/7"
	require.Equal(t, job.Outcome{Kind: job.Succeeded, Status: 200}, target.Deliver(t.Context(), a))
	require.Equal(t, "order/7", got.Get("Idempotency-Key"))
	require.Equal(t, job.FormatRunID(a.Key), got.Get("Belfry-Run-Id"))
}
