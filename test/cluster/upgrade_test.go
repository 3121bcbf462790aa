package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// releases are the programs of an upgrade: of an earlier commit, and of this one. Each knows its version by name.
type releases struct {
	old, new string // paths of belfry
	sdk      string // directory with the examples of the old Go client
}

// later is a migration that only the new program has, because the commits may have the same ones.
const later = "-- +goose Up\n\nSET LOCAL lock_timeout = '500ms';\n\nALTER TABLE session ADD later integer;\n"

// buildReleases builds the program and the Go client of a commit, and the program of this one with a further migration.
func buildReleases(t *testing.T, commit string) (r releases) {
	t.Helper()
	dir := t.TempDir()
	run := func(in, name string, args ...string) error {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
		return nil
	}
	if err := run(".", "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		t.Fatalf("the upgrade needs commit %s, which this repository does not have; "+
			"in a shallow clone run: git fetch --unshallow, or name another one with OLD=…\n%v", commit, err)
	}
	tree, root := filepath.Join(dir, "old-tree"), filepath.Join("..", "..")
	require.NoError(t, os.Mkdir(tree, 0o700))
	archive := filepath.Join(dir, "old.tar")
	require.NoError(t, run(root, "git", "archive", "--output", archive, commit))
	require.NoError(t, run(tree, "tar", "-xf", archive))
	r = releases{filepath.Join(dir, "old", "belfry"), filepath.Join(dir, "new", "belfry"), filepath.Join(dir, "sdk")}
	build := func(in, version, out string, flags ...string) error {
		args := append([]string{"build", "-ldflags", "-X main.release=" + version, "-o", out}, flags...)
		return run(in, "go", append(args, "./cmd/belfry")...)
	}
	migration, overlay := filepath.Join(dir, "later.sql"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(migration, []byte(later), 0o600))
	added, err := filepath.Abs(filepath.Join(root, "internal", "postgres", "migration", "9999_later.sql"))
	require.NoError(t, err)
	text, err := json.Marshal(map[string]map[string]string{"Replace": {added: migration}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	require.NoError(t, build(tree, "old", r.old))
	require.NoError(t, build(root, "new", r.new, "-overlay", overlay))
	require.NoError(t, os.Mkdir(r.sdk, 0o700))
	require.NoError(t, run(filepath.Join(tree, "sdk", "go"), "go", "build", "-o", r.sdk, "./examples/jobs", "./examples/worker"))
	return r
}

// upgrade is a cluster that is upgraded. Its schema and its jobs are those of the old program.
type upgrade struct {
	*cluster
	releases
	owner, key string
	ending     sync.Map // the addresses of nodes that were asked to end
}

func newUpgrade(t *testing.T, r releases, first string) *upgrade {
	t.Helper()
	d := newDatabase(t)
	u := &upgrade{releases: r, owner: d.url(), cluster: &cluster{
		setup: setup{named: true, api: true}, t: t, db: d, url: pgtest.As(t, d.url(), serverRole),
		sink: newSink(t, 1, nowAndThen), log: filepath.Join(t.TempDir(), "nodes.log"),
	}}
	var err error
	u.pool, err = pgxpool.New(t.Context(), u.owner)
	require.NoError(t, err)
	t.Cleanup(u.pool.Close)
	u.store = pgtest.NewStore(u.pool)
	_, err = u.pool.Exec(t.Context(), `CREATE ROLE `+serverRole+` LOGIN`)
	require.NoError(t, err)
	u.key = regexp.MustCompile(`(?m)^bfk_\w+$`).FindString(u.belfry(first, "migrate", "--database-url", u.owner))
	require.NotEmpty(t, u.key)
	t.Cleanup(func() {
		u.stop()
		keepLog(t, "nodes", u.log)
	})
	return u
}

// belfry runs a command of one of the programs, as a user with a key, and returns what it prints.
func (u *upgrade) belfry(program string, args ...string) string {
	u.t.Helper()
	return u.execute(exec.CommandContext(u.t.Context(), program, args...))
}

func (u *upgrade) execute(cmd *exec.Cmd) string {
	u.t.Helper()
	cmd.Env = append(cmd.Environ(), "BELFRY_KEY="+u.key)
	if len(u.nodes) > 0 {
		cmd.Env = append(cmd.Env, "BELFRY_SERVER=http://"+u.nodes[0].listen)
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	require.NoError(u.t, cmd.Run(), "%s\n%s%s", cmd, out.String(), problems.String())
	return out.String()
}

var upgradeBlock = regexp.MustCompile("(?ms)^ *```sh upgrade\n(.*?)^ *```$")

// guide executes a block of the section "Upgrade and roll back" with the new program, in a directory with the
// configuration of a node.
func (u *upgrade) guide(block int) string {
	u.t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "operating.md"))
	require.NoError(u.t, err)
	blocks := upgradeBlock.FindAllSubmatch(page, -1)
	require.Len(u.t, blocks, 3, "the drill executes each block of the guide")
	cmd := exec.CommandContext(u.t.Context(), "bash", "-euo", "pipefail", "-c", string(blocks[block][1]))
	cmd.Dir = u.t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(u.new)+":"+os.Getenv("PATH"))
	if text := string(blocks[block][1]); !strings.Contains(text, "--config") {
		cmd.Env = append(cmd.Env, "BELFRY_DATABASE_URL="+u.owner)
	}
	config := fmt.Sprintf("database_url: %s\nlisten: %s\nslots: 200\n", u.url, u.nodes[0].listen)
	require.NoError(u.t, os.WriteFile(filepath.Join(cmd.Dir, "belfry.yaml"), []byte(config), 0o600))
	return u.execute(cmd)
}

// add starts nodes of a program, and waits until all nodes share the partitions.
func (u *upgrade) add(program string, n int) {
	u.t.Helper()
	u.program = program
	for range n {
		u.nodes = append(u.nodes, u.start())
	}
	u.balanced()
	u.publish()
}

// remove stops the nodes of a program one after the other, as a rolling restart does.
func (u *upgrade) remove(program string) {
	u.t.Helper()
	for _, n := range slices.Clone(u.nodes) {
		if n.program != program {
			continue
		}
		u.ending.Store("http://"+n.listen+"/api/v1", true)
		require.NoError(u.t, n.end(syscall.SIGTERM))
		u.nodes = slices.DeleteFunc(u.nodes, func(x *node) bool { return x == n })
		u.publish()
		u.balanced()
	}
}

// worked waits until the nodes have delivered as many occurrences again as all jobs have in some seconds.
func (u *upgrade) worked(seconds int) {
	u.t.Helper()
	want := len(u.sink.all()) + seconds*len(u.jobs)
	ctx, cancel := context.WithTimeout(u.t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(u.t, until(ctx, func() bool { return len(u.sink.all()) >= want }), "runs do not arrive")
}

// fill creates jobs that are due every second, over the API.
func (u *upgrade) fill(n int) {
	u.t.Helper()
	c := u.caller(time.Minute)
	for i := range n {
		got, text := c.call(u.t.Context(), http.MethodPost, "/jobs", fmt.Sprintf(`{"name": "job-%d", "overlap": "allow",
			"schedule": {"every": "1s"}, "target": {"kind": "http", "config": {"url": %q}},
			"retry": {"max_attempts": 100, "backoff": "none"},
			"missed": {"policy": "all", "catch_up_window": "1h", "max": 10000, "pace": "1ms"}}`,
			i, u.sink.url))
		require.Equal(u.t, acknowledged, got, "%s", text)
		var made struct {
			ID        string    `json:"id"`
			CreatedAt time.Time `json:"created_at"`
		}
		require.NoError(u.t, json.Unmarshal(text, &made))
		id, err := job.ParseJobID(made.ID)
		require.NoError(u.t, err)
		u.jobs = append(u.jobs, job.Job{ID: id, CreatedAt: made.CreatedAt})
	}
}

// caller is a user of the API with the first key.
func (u *upgrade) caller(deadline time.Duration) *caller {
	return &caller{c: u.cluster, key: u.key, http: &http.Client{}, deadline: deadline}
}

// doctor returns the checks of doctor that are not ok, with their messages.
func (u *upgrade) doctor() map[string]string {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), u.new, "doctor", "-o", "json", "--database-url", u.url)
	cmd.Env = append(os.Environ(), "BELFRY_LISTEN="+u.nodes[0].listen, "BELFRY_SLOTS=200")
	out, _ := cmd.Output() // the exit code follows
	var results []doctor.Result
	require.NoError(u.t, json.Unmarshal(out, &results), "%s", out)
	bad := map[string]string{}
	for _, r := range results {
		if r.Status == doctor.Warning || r.Status == doctor.Failure {
			bad[r.Check] = r.Message
		}
	}
	return bad
}

// check judges what is due before the end. The jobs go on.
func (u *upgrade) check() report {
	u.t.Helper()
	later := func(run string) bool {
		k, err := job.ParseRunID(run)
		return err == nil && !k.DueAt.Before(u.end)
	}
	ledger := u.ledger()
	maps.DeleteFunc(ledger, func(run string, _ []entry) bool { return later(run) })
	receipts := slices.DeleteFunc(u.sink.all(), func(x receipt) bool { return later(x.run) })
	r := judge(u.must(), ledger, receipts)
	r.stuck = u.stuck()
	return r
}

// users call the API of all nodes until stop is called. It returns how often each status was the answer, and which jobs
// were acknowledged.
type users struct {
	u       *upgrade
	cancel  context.CancelFunc
	group   sync.WaitGroup
	mu      sync.Mutex
	answers map[string]int
	jobs    []string
}

func (u *upgrade) users(n int) *users {
	s := &users{u: u, answers: map[string]int{}}
	ctx, cancel := context.WithCancel(u.t.Context())
	s.cancel = cancel
	for who := range n {
		s.group.Go(func() {
			c := u.caller(time.Minute)
			for i := 0; ctx.Err() == nil; i++ {
				switch i % 4 {
				case 0:
					name := fmt.Sprintf("user-%d-%d", who, i)
					if s.call(c, http.MethodPost, "/jobs", fmt.Sprintf(`{"name": %q, "schedule": "every 24h",
						"target": {"kind": "http", "config": {"url": %q}}}`, name, u.sink.url)) == http.StatusCreated {
						s.mu.Lock()
						s.jobs = append(s.jobs, name)
						s.mu.Unlock()
					}
				case 1:
					s.call(c, http.MethodGet, "/jobs?page_size=20", "")
				case 2:
					s.call(c, http.MethodGet, "/runs?page_size=20", "")
				default:
					s.call(c, http.MethodGet, "/queues", "")
				}
				<-time.After(100 * time.Millisecond)
			}
		})
	}
	return s
}

// call counts the answer. A node that has just ended does not answer, which clients see as a refused connection.
func (s *users) call(c *caller, method, path, body string) (status int) {
	address := c.anyNode()
	r, err := http.NewRequest(method, address+path, strings.NewReader(body))
	if err != nil {
		return s.count(err.Error(), 0)
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		if _, ends := s.u.ending.Load(address); ends {
			return s.count(unanswered, 0)
		}
		return s.count(err.Error(), 0)
	}
	_ = resp.Body.Close()
	answer := fmt.Sprint(resp.StatusCode)
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
		answer += " with Retry-After"
	}
	return s.count(answer, resp.StatusCode)
}

// unanswered is the answer of a node that has been asked to end.
const unanswered = "no answer of a node that ends"

func (s *users) count(answer string, status int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[answer]++
	return status
}

// stop ends the calls and judges them.
func (s *users) stop() {
	s.u.t.Helper()
	s.cancel()
	s.group.Wait()
	s.u.t.Logf("API: %v, %d jobs created", s.answers, len(s.jobs))
	for answer := range s.answers {
		require.Contains(s.u.t, []string{"200", "201", "503 with Retry-After", unanswered}, answer)
	}
	require.NotEmpty(s.u.t, s.jobs)
	var found int
	require.NoError(s.u.t, s.u.pool.QueryRow(s.u.t.Context(),
		`SELECT count(*) FROM job WHERE name = ANY ($1)`, s.jobs).Scan(&found))
	require.Equal(s.u.t, len(s.jobs), found, "acknowledged jobs are there")
}

// TestUpgrade (F32): a cluster of an earlier commit is upgraded to this one, rolled back and upgraded again, while runs
// are due and users call the API. No occurrence is lost, and none is delivered twice.
func TestUpgrade(t *testing.T) {
	commit := os.Getenv("BELFRY_UPGRADE")
	if commit == "" {
		t.Skip("BELFRY_UPGRADE is not set; run: make test-upgrade")
	}
	r := buildReleases(t, commit)
	t.Run("nodes", func(t *testing.T) { upgradeNodes(t, r) })
	t.Run("old clients", func(t *testing.T) { oldClients(t, r) })
	t.Run("new command line", func(t *testing.T) {
		u := newUpgrade(t, r, r.old)
		u.add(r.old, 1)
		u.basics(r.new)
	})
}

func upgradeNodes(t *testing.T, r releases) {
	f := form{seconds: 180, jobs: 50}.long()
	u := newUpgrade(t, r, r.old)
	u.add(r.old, 2)
	u.fill(f.jobs)
	calls, while := u.users(4), f.seconds/18
	u.worked(while)

	schema := func() (n int) {
		require.NoError(t, u.pool.QueryRow(t.Context(), `SELECT max(version_id) FROM belfry_migration`).Scan(&n))
		return n
	}
	before := schema()
	t.Logf("schema %d, guide: %s", before, strings.TrimSpace(u.guide(0)))
	require.Greater(t, schema(), before)
	u.worked(while)
	u.add(r.new, 2)
	require.Equal(t, map[string]string{
		"versions": "nodes run different versions: new (node-2, node-3), old (node-0, node-1)",
	}, u.doctor())
	_, err := u.pool.Exec(t.Context(), `SELECT belfry_contract($1)`, schema())
	require.ErrorContains(t, err, "upgrade or stop them: node-0 (old), node-1 (old)")
	u.worked(while)
	u.remove(r.old)
	require.Contains(t, u.guide(1), "0 failures")
	require.Empty(t, u.doctor())
	u.worked(while)
	t.Logf("forward: schema %d", schema())

	u.add(r.old, 2)
	u.remove(r.new)
	u.worked(while)
	t.Log("back: old nodes on the new schema")
	u.add(r.new, 2)
	u.remove(r.old)
	u.worked(while)
	t.Log("forward again")
	calls.stop()
	u.end = u.now().Truncate(time.Second)
	require.NoError(t, u.ended(u.end, 5*time.Minute))
	require.Empty(t, u.doctor())
	require.Contains(t, u.guide(2), "the schema is up to date")
	t.Logf("audit:\n%s", u.belfry(r.new, "audit", "ledger", "--with", "oracle", "--database-url", u.url))
	result := u.check()
	t.Logf("lateness %s", u.lateness())
	t.Log(result)
	require.GreaterOrEqual(t, int(u.sound(result).Expected), result.occurrences)
	require.Zero(t, result.duplicates)
	u.lockedOut(schema())
}

// lockedOut: after a contract migration, the old program gets no session, although it does not check the schema itself.
func (u *upgrade) lockedOut(schema int) {
	u.t.Helper()
	_, err := u.pool.Exec(u.t.Context(), `SELECT belfry_contract($1)`, schema)
	require.NoError(u.t, err, "all nodes are new")
	u.program = u.old
	old := u.start()
	ctx, cancel := context.WithTimeout(u.t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(u.t, until(ctx, func() bool {
		log, _ := os.ReadFile(u.log)
		return bytes.Contains(log, []byte("a contract migration removed what this node uses"))
	}), "the old node does not say why it has no session")
	require.Contains(u.t, u.belfry(u.new, "cluster"), "nodes         2\n")
	require.NoError(u.t, old.end(syscall.SIGTERM))
	u.balanced()
}

// basics are the commands that users need, of one program against a node of the other.
func (u *upgrade) basics(program string) {
	u.t.Helper()
	show := func(args ...string) (v map[string]any) {
		out := u.belfry(program, append(args, "-o", "json")...)
		require.NoError(u.t, json.Unmarshal([]byte(out), &v), "%v: %s", args, out)
		return v
	}
	created := show("job", "create", "report", "--every", "24h", "--url", u.sink.url)
	require.Equal(u.t, "report", created["name"])
	require.Equal(u.t, created["id"], show("job", "get", "report")["id"])
	require.Contains(u.t, u.belfry(program, "job", "list"), "report")
	u.belfry(program, "job", "trigger", "report", "--wait")
	require.Contains(u.t, u.belfry(program, "run", "list", "--job", "report"), "succeeded")
	require.Contains(u.t, u.belfry(program, "why", "report"), "succeeded")
	require.Contains(u.t, u.belfry(program, "cluster"), "node-0")
	require.Len(u.t, u.sink.all(), 1)
}

// oldClients: the old command line and programs with the old Go client work with the new server.
func oldClients(t *testing.T, r releases) {
	u := newUpgrade(t, r, r.new)
	u.add(r.new, 1)
	u.basics(r.old)
	u.execute(exec.CommandContext(t.Context(), filepath.Join(r.sdk, "jobs")))
	require.Contains(t, u.belfry(r.old, "job", "list"), "nightly-report")

	worker := exec.Command(filepath.Join(r.sdk, "worker"))
	worker.Env = append(os.Environ(), "BELFRY_SERVER=http://"+u.nodes[0].listen, "BELFRY_KEY="+u.key)
	worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, worker.Start())
	c := u.caller(time.Minute)
	got, text := c.call(t.Context(), http.MethodPost, "/jobs", `{"name": "greeting", "schedule": "every 24h",
		"queue": "greetings", "payload": {"to": "you"}, "target": {"kind": "worker", "config": {"handler": "greet"}}}`)
	require.Equal(t, acknowledged, got, "%s", text)
	require.Contains(t, u.belfry(r.old, "job", "trigger", "greeting", "--wait"), "succeeded")
	require.NoError(t, worker.Process.Signal(syscall.SIGTERM))
	require.NoError(t, worker.Wait())
}
