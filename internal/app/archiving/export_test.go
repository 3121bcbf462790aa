package archiving

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/config"
)

// TestAnArchiveThatFails is retried after a pause, and its error has no keys.
func TestAnArchiveThatFails(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]config.Archive{
		"a file":    {URL: "file:///dev/null/archive"},
		"no server": {URL: "http://127.0.0.1:1/bucket", AccessKey: "canary-access", SecretKey: "canary-secret"},
	} {
		a.Rate = 1
		pause, err := NewExport(a, nil, nil, nil).Once(t.Context())
		require.Error(t, err, name)
		require.Equal(t, retry, pause)
		require.NotContains(t, err.Error(), "canary")
	}
}
