package overview_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/overview"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// store counts how often it is read. Its clock does not move.
type store struct {
	overviews, lives, loads atomic.Int64
	summaries               atomic.Int64
	dead                    atomic.Int64
	loading                 atomic.Pointer[chan struct{}] // if set, a load waits for it
	reading                 chan struct{}                 // if set, an overview waits for it
}

var instant = time.Date(2026, 3, 30, 12, 31, 12, 0, time.UTC)

func (s *store) Now(context.Context, uuid.UUID) (time.Time, error) { return instant, nil }

func (s *store) Stats(context.Context, job.StatParams) (job.Stats, error) { return job.Stats{}, nil }

func (s *store) Overview(context.Context, uuid.UUID) (job.Overview, error) {
	n := s.overviews.Add(1)
	if s.reading != nil {
		<-s.reading
	}
	return job.Overview{
		Namespace: access.DefaultNamespace, Now: instant.Add(time.Duration(n) * time.Second), ClockTrusted: true,
		DeadLetters: job.Capped{Count: s.dead.Load()},
	}, nil
}

func (s *store) RecentRuns(context.Context, uuid.UUID, []job.Job) ([]job.Recent, error) {
	return nil, nil
}

func (s *store) SummarizeDeadLetters(context.Context, job.DeadQueryBy) (job.DeadSummary, error) {
	s.summaries.Add(1)
	return job.DeadSummary{Groups: []job.DeadGroup{{Count: 1, Last: job.DeadLetter{Cause: "c"}}}}, nil
}

func (s *store) LiveRuns(context.Context) (job.Live, error) {
	s.lives.Add(1)
	return job.Live{}, nil
}

func (s *store) Load(context.Context, job.LoadParams) (job.Load, error) {
	s.loads.Add(1)
	if loading := s.loading.Load(); loading != nil {
		<-*loading
	}
	return job.Load{Counts: []int64{3, 4}, Exact: true}, nil
}

// keys accepts one key.
type keys struct{}

var secret = access.FormatKey([32]byte{7})

func (keys) Principal(context.Context, [32]byte) (access.Principal, error) {
	return access.Principal{Namespace: access.DefaultNamespace, Role: access.Viewer}, nil
}

func (keys) LoginPrincipal(context.Context, [32]byte) (access.Principal, error) {
	return access.Principal{}, job.ErrNotFound
}

func (keys) KeyHashes(context.Context) ([][8]byte, error) {
	hash, err := access.KeyHash(secret)
	return [][8]byte{[8]byte(hash[:8])}, err
}

// serve serves the handlers, and returns a function that gets the overview.
func serve(t *testing.T, h *overview.Handlers) func(match string) (status int, etag string, body []byte) {
	t.Helper()
	api := rest.New(rest.Options{Keys: keys{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "test"})
	overview.Register(api, h)
	web := httptest.NewServer(api.Handler())
	t.Cleanup(web.Close)
	return func(match string) (int, string, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/api/v1/overview", http.NoBody)
		if err != nil {
			t.Error(err)
			return 0, "", nil
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		if match != "" {
			r.Header.Set("If-None-Match", match)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0, "", nil
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, resp.Header.Get("ETag"), body
	}
}

func TestManyViewersCostOneReadASecond(t *testing.T) {
	t.Parallel()
	s := &store{reading: make(chan struct{})}
	var elapsed atomic.Int64
	elapsed.Store(int64(time.Hour))
	h := &overview.Handlers{
		Views: s, Cluster: s, Load: s, Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) },
	}
	get := serve(t, h)
	var all sync.WaitGroup
	etags := make([]string, 50)
	for i := range etags {
		all.Go(func() {
			status, etag, body := get("")
			etags[i] = etag
			if status != http.StatusOK || len(body) == 0 {
				t.Errorf("status %d", status)
			}
		})
	}
	close(s.reading)
	all.Wait()
	for _, etag := range etags {
		require.Equal(t, etags[0], etag)
	}
	require.EqualValues(t, 1, s.overviews.Load(), "one for all 50")
	require.EqualValues(t, 1, s.lives.Load())
	require.EqualValues(t, 1, s.loads.Load())

	elapsed.Add(int64(999 * time.Millisecond))
	status, _, body := get(etags[0])
	require.Equal(t, http.StatusNotModified, status)
	require.Empty(t, body)
	require.EqualValues(t, 1, s.overviews.Load())

	elapsed.Add(int64(time.Millisecond))
	status, _, _ = get(etags[0])
	require.Equal(t, http.StatusNotModified, status, "only the time has changed")
	require.EqualValues(t, 2, s.overviews.Load())
	require.EqualValues(t, 1, s.loads.Load(), "the load ahead is read less often")

	s.dead.Store(1)
	loading := make(chan struct{})
	s.loading.Store(&loading)
	elapsed.Add(int64(10 * time.Second))
	status, etag, body := get(etags[0])
	require.Equal(t, http.StatusOK, status, "no viewer waits for the load ahead and the causes")
	require.NotEqual(t, etags[0], etag)
	type answer struct {
		DeadLetters struct{ Count int } `json:"dead_letters"`
		Next        int                 `json:"due_next_5m"`
		Attention   []struct{ Cause string }
	}
	var got answer
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, 1, got.DeadLetters.Count)
	require.Equal(t, 7, got.Next)
	require.Empty(t, got.Attention)
	elapsed.Add(int64(time.Second))
	get("")
	close(loading)
	require.Eventually(t, func() bool {
		elapsed.Add(int64(time.Second))
		_, _, body := get("")
		got = answer{}
		return json.Unmarshal(body, &got) == nil && len(got.Attention) == 1
	}, time.Minute, time.Millisecond)
	require.Equal(t, "c", got.Attention[0].Cause)

	loads := s.loads.Load()
	elapsed.Add(int64(30 * time.Second))
	get("")
	require.Greater(t, s.loads.Load(), loads, "after half a minute without viewers the first one waits for them")
}
