package server_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// slowBulk begins a bulk and leaves it open. finish ends it and returns the status.
func (b *bundle) slowBulk(key string) (finish func(line string) int) {
	b.t.Helper()
	r, w := io.Pipe()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/jobs:bulk", r)
	require.NoError(b.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/x-ndjson")
	// The client sends the body only when the server reads it, which is when the bulk has a slot.
	request.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	b.t.Cleanup(client.CloseIdleConnections)
	status := make(chan int, 1)
	go func() {
		resp, err := client.Do(request)
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	_, err = w.Write([]byte("\n")) // the bulk is in progress
	require.NoError(b.t, err)
	return func(line string) int {
		_, _ = w.Write([]byte(line))
		_ = w.Close()
		return <-status
	}
}

// TestBulksWaitForTheirTurn: the number of bulks in progress is limited, and no key can use all slots.
func TestBulksWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{Bulks: 2})
	bulk := func(key, name string) answer {
		line := `{"name":"` + name + `","schedule":"every 1h","target":{"kind":"noop"}}`
		return b.callAs(key, "POST", "/jobs:bulk", line, "Content-Type", "application/x-ndjson")
	}
	one, two, three := b.key, b.newKey(defaultNamespace, access.Editor), b.newKey(defaultNamespace, access.Editor)
	first := b.slowBulk(one)
	refused := bulk(one, "more")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Contains(t, string(refused.body), "too many bulks")
	require.Equal(t, http.StatusOK, bulk(two, "b").status, "another key has its turn")

	second := b.slowBulk(two)
	require.Equal(t, http.StatusTooManyRequests, bulk(two, "more").status)
	refused = bulk(three, "c")
	require.Equal(t, http.StatusServiceUnavailable, refused.status, "%s", refused.body)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Contains(t, string(refused.body), "too many bulks")
	waits := make(chan answer, 1)
	go func() { waits <- bulk(three, "c") }()
	require.Equal(t, http.StatusOK, first(`{"name":"a","schedule":"every 1h","target":{"kind":"noop"}}`))
	require.Equal(t, http.StatusOK, (<-waits).status, "it came when there was room")
	require.Equal(t, http.StatusOK, second(`{"name":"d","schedule":"every 1h","target":{"kind":"noop"}}`))
	require.Equal(t, http.StatusOK, bulk(one, "e").status)
}
