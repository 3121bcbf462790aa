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
	require.Equal(t, belfry.QuotaNameKeys, list[3].Name)
	require.EqualValues(t, 1, *list[3].Used)
	require.Nil(t, list[3].Limit)
	require.Equal(t, belfry.QuotaNameSessions, list[5].Name)
	require.EqualValues(t, 10_000, *list[5].Limit)
}
