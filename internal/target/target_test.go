package target_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target"
)

func TestList(t *testing.T) {
	t.Parallel()
	all := target.New(target.Options{})
	require.Equal(t, []string{"amqp", "http", "kafka", "nats", "noop"}, slices.Sorted(maps.Keys(all)))
	require.NoError(t, all["http"].Check(json.RawMessage(`{"url": "https://example.com/hook"}`)))
	require.Error(t, all["noop"].Check(json.RawMessage(`{"url": "https://example.com/hook"}`)))
	for _, one := range all {
		one.Close()
	}
}
