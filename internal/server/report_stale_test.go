package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server"
)

// staleKeys are keys of a node that could not read them again.
type staleKeys struct{ access.ReportKeys }

func (staleKeys) Stale() bool { return true }

// TestStaleNodeRejectsNoTokenPermanently: the token may be of a key that this node has not read.
func TestStaleNodeRejectsNoTokenPermanently(t *testing.T) {
	t.Parallel()
	known, other := []byte("known"), []byte("other")
	r := access.Report{Namespace: defaultNamespace, Key: job.Key{Job: uuid.New()}, Attempt: 1}
	send := func(keys access.ReportKeyRing, header string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/api/v1/runs/run_x:heartbeat", http.NoBody)
		request.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		server.New(server.Options{ReportKeys: keys}).Handler().ServeHTTP(w, request)
		return w
	}
	fresh := access.ReportKeys{known}
	stale := staleKeys{fresh}
	require.Equal(t, http.StatusUnauthorized, send(fresh, "Bearer "+r.Token(other)).Code)
	got := send(stale, "Bearer "+r.Token(other))
	require.Equal(t, http.StatusServiceUnavailable, got.Code, got.Body)
	require.NotEmpty(t, got.Header().Get("Retry-After"))
	require.Equal(t, http.StatusUnauthorized, send(stale, "Bearer bfk_x").Code)
	require.Equal(t, http.StatusUnauthorized, send(stale, "Basic "+r.Token(other)).Code)
	require.Equal(t, http.StatusForbidden, send(stale, "Bearer "+r.Token(known)).Code, "it is of another run")
}
