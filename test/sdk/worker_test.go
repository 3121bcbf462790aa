package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/server"
	belfry "github.com/belfry-dev/belfry/sdk/go"
	"github.com/belfry-dev/belfry/sdk/go/effects"
	"github.com/belfry-dev/belfry/sdk/go/worker"
)

const patience = time.Minute

// node is an API with worker endpoints and its own database.
type node struct {
	t      *testing.T
	pool   *pgxpool.Pool
	store  *pgtest.Store
	url    string
	key    string // a worker's key for queue "mail"
	client *belfry.Client
	log    *slog.Logger
}

func setupNode(t *testing.T, ttl time.Duration) *node {
	t.Helper()
	n := &node{t: t, pool: pgtest.New(t), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	n.store = pgtest.NewStore(pgtest.AsServer(t, n.pool))
	require.NoError(t, n.store.CreateHistory(t.Context(), 1))
	bound := &clock.Bound{}
	var now time.Time
	require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	bound.Set(clock.Sample{Now: now})
	p := pull.New(pull.Options{Store: n.store, Sessions: n.store, Bound: bound, TTL: ttl, Log: n.log})
	s := server.New(server.Options{
		Keys: n.store, Jobs: n.store, Verbs: n.store, Ledger: n.store, Load: n.store, Stories: n.store,
		DeadLetters: n.store, Operations: n.store, Queues: n.store, Cluster: n.store, Audit: n.store,
		Workers: p, Version: "test", Log: n.log,
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(p.Stop)
	n.url = web.URL
	var err error
	_, n.key, err = n.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "w", Role: access.Worker, Queues: []string{"mail"}, Actor: "test",
	})
	require.NoError(t, err)
	_, admin, err := n.store.CreateKey(t.Context(),
		access.KeyParams{Namespace: access.DefaultNamespace, Name: "a", Role: access.Admin, Actor: "test"})
	require.NoError(t, err)
	n.client, err = belfry.New(web.URL, admin)
	require.NoError(t, err)
	return n
}

// rescue does what a node does every second, until the test ends.
func (n *node) rescue() {
	id := uuid.New()
	_, err := n.store.Register(n.t.Context(), id, "node", time.Second)
	require.NoError(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = n.store.Renew(ctx, id, time.Second, true)
			_, _, _ = n.store.RescueWorkers(ctx, 100)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	n.t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (n *node) job(handler, more string) {
	n.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"schedule":"every 24h","queue":"mail","overlap":"allow",
		"target":{"kind":"worker","config":{"handler":%q}}%s}`, handler, handler, more)
	n.post("/jobs", []byte(body), nil)
}

// post sends a request with the admin's key, which must succeed.
func (n *node) post(path string, body, out any) {
	n.t.Helper()
	q := belfry.Request{Method: http.MethodPost, Path: path, Body: body}
	require.NoError(n.t, n.client.Call(n.t.Context(), q, out))
}

func (n *node) trigger(name, payload string) string {
	n.t.Helper()
	var out struct{ ID string }
	n.post("/jobs/"+name+":trigger", map[string]any{"payload": rawJSON(payload)}, &out)
	return out.ID
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func (n *node) run(id string) (out struct {
	State    string
	Attempt  int
	Message  string
	Percent  int
	Progress string
	Result   any
	Reason   string
},
) {
	n.t.Helper()
	require.NoError(n.t,
		n.client.Call(n.t.Context(), belfry.Request{Method: http.MethodGet, Path: "/runs/" + id}, &out))
	return out
}

func (n *node) await(id, state string) {
	n.t.Helper()
	require.Eventually(n.t, func() bool { return n.run(id).State == state }, patience, 10*time.Millisecond,
		"%s is not %s", id, state)
}

// worker creates a worker that a test starts.
func (n *node) worker(url string, opts ...worker.Option) *worker.Worker {
	n.t.Helper()
	c, err := belfry.New(url, n.key)
	require.NoError(n.t, err)
	return worker.New(c, "mail", append([]worker.Option{worker.Log(n.log), worker.Name("w")}, opts...)...)
}

// start runs a worker until the test ends, or the returned function is called.
func (n *node) start(w *worker.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			n.t.Errorf("the worker ended: %v", err)
		}
	})
	n.t.Cleanup(stop)
	return stop
}

func TestHandlers(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 10*time.Second)
	type greeting struct{ To string }
	w := n.worker(n.url, worker.Slots(4))
	var order []string
	var mu sync.Mutex
	for _, name := range []string{"outer", "inner"} {
		w.Use(func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, run *worker.Run) error {
				if run.Handler == "greet" {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
				}
				return next(ctx, run)
			}
		})
	}
	worker.Handle(w, "greet", func(_ context.Context, run *worker.Run, in greeting) error {
		return run.Result(map[string]string{"said": "hello " + in.To})
	})
	w.Handle("flaky", func(_ context.Context, run *worker.Run) error {
		if run.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	w.Handle("panic", func(context.Context, *worker.Run) error { panic("oh no") }) //nolint:forbidigo // what is tested
	w.Handle("never",
		func(context.Context, *worker.Run) error { return worker.Permanent(errors.New("no such account")) })
	w.Handle("moot", func(context.Context, *worker.Run) error { return worker.Cancel("the account is closed") })
	w.Handle("later", func(_ context.Context, run *worker.Run) error {
		if run.Attempt < 3 {
			return worker.Snooze(time.Millisecond)
		}
		return nil
	})
	w.Handle("slow", func(ctx context.Context, _ *worker.Run) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	n.job("greet", "")
	n.job("flaky", `,"retry":{"base":"1ms"}`)
	n.job("panic", `,"retry":{"max_attempts":1}`)
	n.job("never", "")
	n.job("moot", "")
	n.job("later", `,"retry":{"max_attempts":1}`)
	n.job("slow", `,"retry":{"max_attempts":1},"timeout":"1s"`)
	n.start(w)
	runs := map[string]string{}
	for name, payload := range map[string]string{
		"greet": `{"to":"you"}`, "flaky": "{}", "panic": "{}", "never": "{}", "moot": "{}", "later": "{}", "slow": "{}",
	} {
		runs[name] = n.trigger(name, payload)
	}
	bad := n.trigger("greet", `"not an object"`)
	for name, state := range map[string]string{
		"greet": "succeeded", "flaky": "succeeded", "panic": "failed", "never": "failed", "moot": "cancelled",
		"later": "succeeded", "slow": "failed",
	} {
		n.await(runs[name], state)
	}
	require.Equal(t, map[string]any{"said": "hello you"}, n.run(runs["greet"]).Result)
	require.Equal(t, 2, n.run(runs["flaky"]).Attempt)
	require.Contains(t, n.run(runs["panic"]).Message, "oh no")
	require.Equal(t, "rejected", n.run(runs["never"]).Reason)
	require.Contains(t, n.run(runs["never"]).Message, "no such account")
	require.Equal(t, 3, n.run(runs["later"]).Attempt)
	require.Contains(t, n.run(runs["slow"]).Message, "longer than the job's timeout")
	n.await(bad, "failed")
	require.Equal(t, "rejected", n.run(bad).Reason, "a payload that cannot be read")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"outer", "inner"}, order[:2])
}

// A cancelled run's context ends, and its progress is visible before.
func TestCancelReachesTheHandler(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 15*time.Second)
	w := n.worker(n.url)
	cause := make(chan error, 1)
	w.Handle("long", func(ctx context.Context, run *worker.Run) error {
		run.Progress(30, "page 3 of 10")
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	n.job("long", `,"timeout":"1h"`)
	n.start(w)
	id := n.trigger("long", "{}")
	require.Eventually(t, func() bool { return n.run(id).Progress == "page 3 of 10" }, patience, 10*time.Millisecond)
	require.Equal(t, 30, n.run(id).Percent)
	n.post("/runs/"+id+":cancel", nil, nil)
	require.ErrorIs(t, <-cause, worker.ErrCancelled)
	require.Equal(t, "cancelled", n.run(id).State)
}

func TestSlotsAreTheLimitAndAStopDrains(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 10*time.Second)
	w := n.worker(n.url, worker.Slots(3))
	var live, most, done atomic.Int32
	release := make(chan struct{})
	w.Handle("x", func(context.Context, *worker.Run) error {
		now := live.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		<-release
		live.Add(-1)
		done.Add(1)
		return nil
	})
	n.job("x", "")
	var ids []string
	for range 10 {
		ids = append(ids, n.trigger("x", "{}"))
	}
	stop := n.start(w)
	require.Eventually(t, func() bool { return live.Load() == 3 }, patience, time.Millisecond)
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Fatal("it did not wait for its handlers")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-stopped
	require.LessOrEqual(t, most.Load(), int32(3))
	ended := 0
	for _, id := range ids {
		if n.run(id).State == "succeeded" {
			ended++
		}
	}
	require.Equal(t, int(done.Load()), ended, "what was done is reported")
	var sessions int
	require.NoError(t,
		n.pool.QueryRow(t.Context(), `SELECT count(*) FROM session WHERE expires_at > now()`).Scan(&sessions))
	require.Zero(t, sessions)
}

// A worker whose session has ended stops its runs, and what they still do has no effect.
func TestALostSession(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 3*time.Second)
	n.rescue()
	w := n.worker(n.url, worker.Slots(1)) // so that no claim is waiting that would notice, only heartbeats
	var attempts atomic.Int32
	causes := make(chan error, 1)
	w.Handle("x", func(ctx context.Context, run *worker.Run) error {
		if attempts.Add(1) == 1 {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		return nil
	})
	n.job("x", "")
	n.start(w)
	id := n.trigger("x", "{}")
	n.await(id, "running")
	_, err := n.pool.Exec(t.Context(), `UPDATE session SET expires_at = '-infinity' WHERE queue_id IS NOT NULL`)
	require.NoError(t, err)
	require.ErrorIs(t, <-causes, worker.ErrLost)
	n.await(id, "succeeded")
	require.Equal(t, 2, n.run(id).Attempt)
}

// The reply to a claim is lost: other workers get its runs immediately, and the worker's runs continue.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	n := setupNode(t, time.Minute)
	n.rescue()
	at, err := url.Parse(n.url)
	require.NoError(t, err)
	var cut atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ErrorLog = nil
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, ":claim") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"handler":"lost"`) && cut.CompareAndSwap(0, 1) {
			panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler breaks off
		}
		return nil
	}
	web := httptest.NewServer(proxy)
	t.Cleanup(web.Close)
	w := n.worker(web.URL)
	release := make(chan struct{})
	w.Handle("kept", func(ctx context.Context, _ *worker.Run) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	w.Handle("lost", func(context.Context, *worker.Run) error { return nil })
	n.job("kept", "")
	n.job("lost", "")
	n.start(w)
	kept := n.trigger("kept", "{}")
	n.await(kept, "running")
	lost := n.trigger("lost", "{}")
	n.await(lost, "succeeded")
	require.Equal(t, 2, n.run(lost).Attempt, "the first one was lost")
	close(release)
	n.await(kept, "succeeded")
	require.Equal(t, 1, n.run(kept).Attempt)
}

func TestAWrongKeyEndsTheWorker(t *testing.T) {
	t.Parallel()
	n := setupNode(t, time.Minute)
	c, err := belfry.New(n.url, n.key)
	require.NoError(t, err)
	w := worker.New(c, "other", worker.Log(n.log))
	w.Handle("x", func(context.Context, *worker.Run) error { return nil })
	require.Equal(t, "forbidden", belfry.CodeOf(w.Run(t.Context())))
}

// TestEffectsHappenOnce: many concurrent transactions with one key, some of which roll back; the effect
// happens once.
func TestEffectsHappenOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for range 2 { // it can be executed again
		_, err := pool.Exec(t.Context(), effects.Schema)
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), `CREATE TABLE account (id int, balance int); INSERT INTO account VALUES (1, 100)`)
	require.NoError(t, err)
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	var wait sync.WaitGroup
	var did atomic.Int32
	for i := range 20 {
		wait.Go(func() {
			tx, err := db.BeginTx(t.Context(), nil)
			if !errorless(t, err) {
				return
			}
			ok, err := effects.Once(t.Context(), effects.SQL(tx), "run_1", func() error {
				_, err := tx.ExecContext(t.Context(), `UPDATE account SET balance = balance - 10 WHERE id = 1`)
				if i%3 == 0 && err == nil {
					err = errors.New("a crash before the commit")
				}
				return err
			})
			if err != nil {
				_ = tx.Rollback()
				return
			}
			if errorless(t, tx.Commit()) && ok {
				did.Add(1)
			}
		})
	}
	wait.Wait()
	var balance int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT balance FROM account`).Scan(&balance))
	require.Equal(t, 90, balance)
	require.EqualValues(t, 1, did.Load())
	pruned, err := effects.Prune(t.Context(), func(ctx context.Context, query string, args ...any) (int64, error) {
		tag, err := pool.Exec(ctx, query, args...) // like a transaction of pgx
		return tag.RowsAffected(), err
	}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, pruned)
}

func errorless(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestTheExampleWorks runs the example worker as its page says.
func TestTheExampleWorks(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 10*time.Second)
	_, key, err := n.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "g", Role: access.Worker, Queues: []string{"greetings"},
		Actor: "test",
	})
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "worker")
	out, err := exec.Command("go", "build", "-o", program,
		"github.com/belfry-dev/belfry/sdk/go/examples/worker").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "BELFRY_SERVER="+n.url, "BELFRY_KEY="+key)
	require.NoError(t, cmd.Start())
	body := `{"name":"greet","schedule":"every 24h","queue":"greetings",
		"target":{"kind":"worker","config":{"handler":"greet"}}}`
	n.post("/jobs", []byte(body), nil)
	id := n.trigger("greet", `{"to":"you"}`)
	n.await(id, "succeeded")
	require.Equal(t, map[string]any{"said": "hello you"}, n.run(id).Result)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
}
