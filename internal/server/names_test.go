package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/server"
)

// description is the part of the OpenAPI description that the tests of names read.
type description struct {
	Servers    []struct{ URL string }
	Paths      map[string]map[string]describedOperation
	Components struct {
		Schemas map[string]struct{ Properties map[string]any }
	}
}

type describedOperation struct {
	OperationID string
	Parameters  []struct{ Name, In string }
	Responses   map[string]struct{ Headers map[string]any }
}

func readDescription(t *testing.T) (d description) {
	t.Helper()
	w := httptest.NewRecorder()
	server.New(server.Options{}).Handler().ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "/api/v1/openapi.json", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	require.Greater(t, len(d.Paths), 20)
	return d
}

// TestSchemasAreNamedAfterThings: a schema has a name of its own, not one that the generator made.
func TestSchemasAreNamedAfterThings(t *testing.T) {
	t.Parallel()
	d := readDescription(t)
	require.NotEmpty(t, d.Servers)
	generated := regexp.MustCompile(`(Body|JSON|Output|Answer|Response|Struct|^Item|[a-z]Items?)$`)
	// The result of a line, what a command wrote, and an occurrence in a timeline.
	kept := []string{"BulkItem", "RunOutput", "TimelineItem"}
	for name := range d.Components.Schemas {
		require.True(t, slices.Contains(kept, name) || !generated.MatchString(name), name)
	}
}

// TestOperationsHaveOneVerbScheme: an id is a verb and a noun. The verb follows from the method, or is the one in the
// path.
func TestOperationsHaveOneVerbScheme(t *testing.T) {
	t.Parallel()
	standard := map[string][]string{
		"get": {"get", "list"}, "post": {"create"}, "put": {"replace"}, "patch": {"update"}, "delete": {"delete"},
	}
	own := map[string]string{ // operations whose id says more than their path
		"create-jobs": "POST /jobs:bulk", "import-crontab": "POST /imports:crontab",
		"summarize-dead-letters": "GET /dead-letters:summary", "explain-job": "GET /jobs/{job}/why",
		"list-broken-schedules": "GET /schedules:broken", "explain-run": "GET /runs/{run}/why", "preview-job": "GET /jobs/{job}/preview",
	}
	for path, methods := range readDescription(t).Paths {
		path = strings.TrimPrefix(path, "/api/v1")
		for method, o := range methods {
			verb, _, ok := strings.Cut(o.OperationID, "-")
			require.True(t, ok, o.OperationID)
			if own[o.OperationID] != "" {
				require.Equal(t, own[o.OperationID], strings.ToUpper(method)+" "+path)
				continue
			}
			if _, custom, ok := strings.Cut(path, ":"); ok {
				require.Equal(t, custom, verb, o.OperationID)
			} else {
				require.Contains(t, standard[method], verb, o.OperationID)
			}
		}
	}
}

// TestCreatedResourcesHaveALocation: a response that creates or starts something names its path, if it has one.
func TestCreatedResourcesHaveALocation(t *testing.T) {
	t.Parallel()
	without := []string{
		"create-key", "create-session", // cannot be read back
		"backfill-job", // many runs
		"replace-job",  // its path is that of the request
	}
	for _, methods := range readDescription(t).Paths {
		for _, o := range methods {
			for _, status := range []string{"201", "202"} {
				if r, ok := o.Responses[status]; ok && !slices.Contains(without, o.OperationID) {
					require.Contains(t, r.Headers, "Location", o.OperationID)
				}
			}
		}
	}
}
