// Package sdk tests the Go client against the real API.
package sdk_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
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
		Keys: store, Jobs: store, Verbs: store, Versions: store, Ledger: store, Load: store, Stories: store,
		DeadLetters: store, Operations: store,
		Queues: store, Secrets: store, Cluster: store, Audit: store, Quotas: store, Brokers: store, Version: "test",
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
	created, err := c.Jobs.Put(t.Context(), in)
	require.NoError(t, err)
	require.EqualValues(t, 1, created.Version)
	_, err = c.Jobs.Create(t.Context(), in)
	require.Equal(t, "conflict", belfry.CodeOf(err))

	got, err := c.Jobs.Get(t.Context(), in.Name)
	require.NoError(t, err)
	require.Equal(t, created.ID, got.ID)
	require.Equal(t, belfry.JobStateActive, got.State)
	require.EqualValues(t, 7, got.Retry.MaxAttempts)
	require.Equal(t, belfry.Cron("0 2 * * *", "Europe/Berlin"), got.Schedule)

	for _, s := range []belfry.Schedule{
		belfry.Every(90 * time.Second), belfry.At(time.Date(2127, 1, 2, 3, 4, 5, 0, time.UTC)),
		belfry.Spec(belfry.ScheduleSpec{
			Rrule: "FREQ=DAILY", Dst: belfry.DST{Gap: belfry.DSTGapSkip},
			Calendars: []belfry.Calendar{{Weekdays: []string{"sat"}}},
		}),
	} {
		in.Schedule = s
		replaced, err := c.Jobs.Put(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, created.ID, replaced.ID)
	}
	_, err = c.Jobs.Put(t.Context(), in, belfry.IfVersion(1))
	require.Equal(t, "precondition_failed", belfry.CodeOf(err))
	in.Name = "another"
	another, err := c.Jobs.Put(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "another", another.Name)

	paused, err := c.Jobs.Pause(t.Context(), "a/b: c", "why")
	require.NoError(t, err)
	require.Equal(t, "why", paused.Note)
	resumed, err := c.Jobs.Resume(t.Context(), "a/b: c")
	require.NoError(t, err)
	require.EqualValues(t, 0, resumed.MissedOccurrences)
	run, err := c.Jobs.Trigger(t.Context(), "a/b: c", belfry.TriggerRequest{Payload: "x"})
	require.NoError(t, err)
	require.Contains(t, run.ID, "run_")
	require.NoError(t, c.Jobs.Delete(t.Context(), "a/b: c"))
	_, err = c.Jobs.Get(t.Context(), "a/b: c")
	require.Equal(t, "not_found", belfry.CodeOf(err))
}

func TestProblems(t *testing.T) {
	t.Parallel()
	c, url := setup(t)
	_, err := c.Jobs.Put(t.Context(), belfry.JobInput{
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

	key, err := c.Keys.Create(t.Context(), belfry.KeyRequest{Name: "v", Role: belfry.RoleViewer})
	require.NoError(t, err)
	viewer, err := belfry.New(url, key.Secret)
	require.NoError(t, err)
	self, err := viewer.Self(t.Context())
	require.NoError(t, err)
	require.Equal(t, belfry.RoleViewer, self.Role)
	_, err = viewer.Keys.List(t.Context())
	require.Equal(t, "forbidden", belfry.CodeOf(err))
	names := []string{}
	for raw, err := range c.List(t.Context(), "/keys", nil) {
		require.NoError(t, err)
		names = append(names, string(raw))
	}
	require.Len(t, names, 2)
}

// TestServices calls every service of the client.
func TestServices(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, _ := setup(t)
	bulk, err := c.Jobs.CreateAll(ctx, []belfry.JobInput{
		{
			Name: "a", Schedule: belfry.Every(time.Hour), Target: belfry.Target{Kind: "noop"},
			Labels: map[string]string{"x": "y"},
		},
		{Name: "b", Schedule: belfry.Every(time.Hour), Target: belfry.Worker("send"), Queue: "mail"},
	})
	require.NoError(t, err)
	require.Len(t, bulk.Items, 2)
	for i, f := range []belfry.JobFilter{{Labels: map[string]string{"x": "y"}}, {Queue: "mail"}} {
		var names []string
		for j, err := range c.Jobs.List(ctx, f) {
			require.NoError(t, err)
			names = append(names, j.Name)
		}
		require.Equal(t, []string{[]string{"a", "b"}[i]}, names)
	}
	preview, err := c.Jobs.Preview(ctx, "a", 3)
	require.NoError(t, err)
	require.Len(t, preview.Occurrences, 3)
	why, err := c.Jobs.Why(ctx, "a", time.Time{})
	require.NoError(t, err)
	require.NotEmpty(t, why.Items)

	limited, err := c.Queues.Limit(ctx, "mail", belfry.QueueLimits{MaxRunning: 2})
	require.NoError(t, err)
	require.EqualValues(t, 2, limited.MaxRunning)
	paused, err := c.Queues.Pause(ctx, "mail", "maintenance")
	require.NoError(t, err)
	require.True(t, paused.Paused)
	_, err = c.Queues.Resume(ctx, "mail")
	require.NoError(t, err)
	got, err := c.Queues.Get(ctx, "mail")
	require.NoError(t, err)
	require.False(t, got.Paused)

	run, err := c.Jobs.Trigger(ctx, "b", belfry.TriggerRequest{}, belfry.IdempotencyKey("once"))
	require.NoError(t, err)
	again, err := c.Jobs.Trigger(ctx, "b", belfry.TriggerRequest{}, belfry.IdempotencyKey("once"))
	require.NoError(t, err)
	require.Equal(t, run.ID, again.ID)
	_, err = c.Runs.Cancel(ctx, run.ID)
	require.NoError(t, err)
	ended, err := c.Runs.Wait(ctx, run.ID)
	require.NoError(t, err)
	require.Equal(t, belfry.RunStateCancelled, ended.State)
	n := 0
	for r, err := range c.Runs.List(ctx, belfry.RunFilter{Job: "b", States: []belfry.RunState{belfry.RunStateCancelled}}) {
		require.NoError(t, err)
		require.Equal(t, run.ID, r.ID)
		n++
	}
	require.Equal(t, 1, n)
	for range c.DeadLetters.List(ctx, belfry.DeadLetterFilter{Job: "b"}) {
		t.Fatal("there is no dead letter")
	}
	operation, err := c.DeadLetters.RedriveAll(ctx, belfry.OperationRequest{All: true})
	require.NoError(t, err)
	_, err = c.Operations.Get(ctx, operation.ID)
	require.NoError(t, err)
	_, err = c.Secrets.Put(ctx, "token", belfry.SecretRequest{Value: "s3cret"})
	require.Equal(t, "unavailable", belfry.CodeOf(err), "this server has no keyset")
	require.Equal(t, "not_found", belfry.CodeOf(c.Secrets.Delete(ctx, "token")))
}

// TestExample runs the program of the README.
func TestExample(t *testing.T) {
	t.Parallel()
	c, url := setup(t)
	key, err := c.Keys.Create(t.Context(), belfry.KeyRequest{Name: "example", Role: belfry.RoleEditor})
	require.NoError(t, err)
	run := exec.CommandContext(t.Context(), "go", "run", "./examples/jobs")
	run.Dir = "../../sdk/go"
	run.Env = append(os.Environ(), "GOWORK=off", "BELFRY_SERVER="+url, "BELFRY_KEY="+key.Secret)
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?s)saved job=nightly-report next_due_at=.*triggered run=run_\w{40}\n.*found run=run_\w{40} state=`,
		string(out))
}
