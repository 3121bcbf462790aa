// Package sdk tests the Go client against the real API.
package sdk_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// setup returns a client for an API with its own database, and its URL.
func setup(t *testing.T) (*belfry.Client, string) {
	t.Helper()
	store := pgtest.NewStore(pgtest.AsServer(t, pgtest.New(t)))
	require.NoError(t, store.CreateHistory(t.Context(), 1))
	s := server.New(server.Options{
		Keys: store, Jobs: store, Verbs: store, Ledger: store, Stories: store, DeadLetters: store, Operations: store,
		Queues: store, Cluster: store, Audit: store, Version: "test",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	namespace := uuid.MustParse("00000000-0000-7000-8000-000000000001")
	_, secret, err := store.CreateKey(t.Context(),
		access.KeyParams{Namespace: namespace, Name: "test", Role: access.Admin, Actor: "test"})
	require.NoError(t, err)
	c, err := belfry.New(web.URL, secret)
	require.NoError(t, err)
	return c, web.URL
}

func TestTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	in := belfry.JobInput{
		Name: "a/b: c", Schedule: belfry.Cron("0 2 * * *", "Europe/Berlin"), Labels: map[string]string{"team": "web"},
		Target: belfry.Target{Kind: "http", Config: map[string]any{"url": "https://example.com"}}, Payload: []int{1},
		Retry: belfry.Retry{MaxAttempts: 7}, Timeout: "1m",
	}
	created, err := c.ReplaceJobWithResponse(t.Context(), in.Name, nil, in)
	require.NoError(t, err)
	require.Regexp(t, `^"1-[0-9a-z]+"$`, created.Headers201.ETag)
	err = c.Call(t.Context(), belfry.Request{Method: http.MethodPost, Path: "/jobs", Body: in}, nil)
	require.Equal(t, "conflict", belfry.CodeOf(err))

	got, err := c.GetJobWithResponse(t.Context(), in.Name)
	require.NoError(t, err)
	require.Equal(t, created.JSON201.ID, got.JSON200.ID)
	require.Equal(t, belfry.JobStateActive, got.JSON200.State)
	require.EqualValues(t, 7, got.JSON200.Retry.MaxAttempts)
	spec, err := got.JSON200.Schedule.AsScheduleSpec()
	require.NoError(t, err)
	require.Equal(t, belfry.ScheduleSpec{Cron: "0 2 * * *", Timezone: "Europe/Berlin"}, spec)

	for _, s := range []belfry.Schedule{
		belfry.Every(90 * time.Second), belfry.At(time.Date(2127, 1, 2, 3, 4, 5, 0, time.UTC)),
		belfry.Spec(belfry.ScheduleSpec{
			Rrule: "FREQ=DAILY", Dst: belfry.DST{Gap: belfry.DSTGapSkip},
			Calendars: []belfry.Calendar{{Weekdays: []string{"sat"}}},
		}),
	} {
		in.Schedule = s
		replaced, err := c.ReplaceJobWithResponse(t.Context(), in.Name, nil, in)
		require.NoError(t, err)
		require.NotNil(t, replaced.JSON200)
	}
	old := belfry.IfMatch(1)
	_, err = c.ReplaceJobWithResponse(t.Context(), in.Name, &belfry.ReplaceJobParams{IfMatch: &old}, in)
	require.Equal(t, "precondition_failed", belfry.CodeOf(err))
	in.Name = "another"
	replaced, err := c.ReplaceJobWithResponse(t.Context(), in.Name, nil, in)
	require.NoError(t, err)
	require.Equal(t, "another", replaced.JSON201.Name, "one that is new")

	paused, err := c.PauseJobWithResponse(t.Context(), "a/b: c", nil, belfry.PauseJobRequest{Note: "why"})
	require.NoError(t, err)
	require.Equal(t, "why", paused.JSON200.Note)
	resumed, err := c.ResumeJobWithResponse(t.Context(), "a/b: c", nil)
	require.NoError(t, err)
	require.EqualValues(t, 0, resumed.JSON200.MissedOccurrences)
	run, err := c.TriggerJobWithResponse(t.Context(), "a/b: c", nil, belfry.TriggerRequest{Payload: "x"})
	require.NoError(t, err)
	require.Contains(t, run.JSON202.ID, "run_")
	_, err = c.DeleteJobWithResponse(t.Context(), "a/b: c", nil)
	require.NoError(t, err)
	_, err = c.GetJobWithResponse(t.Context(), "a/b: c")
	require.Equal(t, "not_found", belfry.CodeOf(err))
}

func TestProblems(t *testing.T) {
	t.Parallel()
	c, url := setup(t)
	_, err := c.ReplaceJobWithResponse(t.Context(), "x", nil, belfry.JobInput{
		Name: "x", Schedule: belfry.Cron("61 * * * *", ""), Target: belfry.Target{Kind: "noop"}, Timeout: "soon",
	})
	var p *belfry.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, "invalid", p.Code)
	var fields []string
	for _, f := range p.Problems {
		fields = append(fields, f.Field)
	}
	require.ElementsMatch(t, []string{"schedule.cron", "timeout"}, fields)

	key, err := c.CreateKeyWithResponse(t.Context(),
		belfry.KeyRequest{Name: "v", Role: belfry.RoleViewer})
	require.NoError(t, err)
	viewer, err := belfry.New(url, key.JSON201.Secret)
	require.NoError(t, err)
	self, err := viewer.GetSelfWithResponse(t.Context())
	require.NoError(t, err)
	require.Equal(t, belfry.RoleViewer, self.JSON200.Role)
	_, err = viewer.ListKeysWithResponse(t.Context())
	require.Equal(t, "forbidden", belfry.CodeOf(err))
	names := []string{}
	for raw, err := range c.List(t.Context(), "/keys", nil) {
		require.NoError(t, err)
		names = append(names, string(raw))
	}
	require.Len(t, names, 2)
}
