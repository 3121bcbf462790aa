package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// bulk creates a job through a bulk.
func (b *bundle) bulk(key, name string) answer {
	line := `{"name":"` + name + `","schedule":"every 1h","target":{"kind":"noop"}}`
	return b.callAs(key, "POST", "/jobs:bulk", line, "Content-Type", "application/x-ndjson")
}

// heldBulk begins a bulk that waits for the table of jobs, which is blocked.
func (b *bundle) heldBulk(key, name string, waiting int) <-chan answer {
	b.t.Helper()
	out := make(chan answer, 1)
	go func() { out <- b.bulk(key, name) }()
	b.waiting(waiting)
	return out
}

// TestBulksWaitForTheirTurn: the number of bulks in progress is limited, and no namespace can use all slots, however many
// keys it has.
func TestBulksWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{Bulks: 2})
	other, third := b.otherNamespace(), b.otherNamespace()
	one, two, three := b.key, b.newKey(other, access.Editor), b.newKey(third, access.Editor)
	release := b.block("job")
	defer release()
	first := b.heldBulk(one, "a", 1)
	refused := b.bulk(b.newKey(defaultNamespace, access.Editor), "more")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Contains(t, string(refused.body), "too many bulks")

	second := b.heldBulk(two, "b", 2) // another namespace has its turn
	require.Equal(t, http.StatusTooManyRequests, b.bulk(two, "more").status)
	refused = b.bulk(three, "c")
	require.Equal(t, http.StatusServiceUnavailable, refused.status, "%s", refused.body)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Contains(t, string(refused.body), "too many bulks")
	waits := make(chan answer, 1)
	go func() { waits <- b.bulk(three, "c") }()
	release()
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	require.Equal(t, http.StatusOK, (<-waits).status, "it came when there was room")
	require.Equal(t, http.StatusOK, b.bulk(one, "e").status)
}
