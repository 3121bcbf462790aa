package sdk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func TestQuotas(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	list, err := c.Quotas(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, belfry.QuotaNameJobs, list[0].Name)
	require.Zero(t, *list[0].Used)
	require.Nil(t, list[0].Limit)
	require.Equal(t, belfry.QuotaNameRunsPerMinute, list[1].Name)
}
