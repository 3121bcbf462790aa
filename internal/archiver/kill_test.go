package archiver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// The variables that say what a child process does.
const (
	killURL       = "BELFRY_ARCHIVER_URL"
	killDirectory = "BELFRY_ARCHIVER_DIRECTORY"
	killSession   = "BELFRY_ARCHIVER_SESSION"
	killStep      = "BELFRY_ARCHIVER_STEP"
	killAfter     = "BELFRY_ARCHIVER_AFTER"
)

// killer kills this process with SIGKILL at the n-th event after a step has begun.
type killer struct {
	archiver.Days
	archive.Store
	step  string
	n     int
	began bool
}

func (k *killer) event() {
	if !k.began {
		return
	}
	if k.n--; k.n < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

func (k *killer) Step(name string) error {
	k.began = k.began || name == k.step
	k.event()
	return nil
}

func (k *killer) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	k.event()
	err := k.Store.Put(ctx, name, &halfway{ReadSeeker: body, at: size / 2, event: k.event}, size)
	k.event()
	return err
}

func (k *killer) Delete(ctx context.Context, name string) error {
	k.event()
	err := k.Store.Delete(ctx, name)
	k.event()
	return err
}

func (k *killer) TakeDay(ctx context.Context, session uuid.UUID) (archive.Task, error) {
	t, err := k.Days.TakeDay(ctx, session)
	k.event()
	return t, err
}

func (k *killer) CloseDays(ctx context.Context) (int, error) {
	n, err := k.Days.CloseDays(ctx)
	k.event()
	return n, err
}

func (k *killer) FinishDay(ctx context.Context, t archive.Task, r archive.Result) error {
	err := k.Days.FinishDay(ctx, t, r)
	k.event()
	return err
}

// halfway is an object of which half has been read when the event comes.
type halfway struct {
	io.ReadSeeker
	at    int64
	event func()
}

func (h *halfway) Read(p []byte) (int, error) {
	if h.at == 0 {
		return h.ReadSeeker.Read(p)
	}
	n, err := h.ReadSeeker.Read(p[:min(int64(len(p)), h.at)])
	if h.at -= int64(n); h.at == 0 {
		h.event()
	}
	return n, err
}

// TestChild is what the child processes of TestKill run.
func TestChild(t *testing.T) {
	t.Parallel()
	if os.Getenv(killURL) == "" {
		t.Skip("only runs in the processes that TestKill starts")
	}
	id := uuid.MustParse(os.Getenv(killSession))
	db := openAs(t, os.Getenv(killURL), id)
	store, err := disk.Open(filepath.Join(os.Getenv(killDirectory), "archive"))
	require.NoError(t, err)
	_, err = db.Members().Register(t.Context(), id, "child", time.Hour)
	require.NoError(t, err)
	k := &killer{Days: db.Archive(), Store: store, step: os.Getenv(killStep)}
	k.n, err = strconv.Atoi(os.Getenv(killAfter))
	require.NoError(t, err)
	a := &archiver.Archiver{
		Days: k, Store: k, Session: func() uuid.UUID { return id }, Step: k.Step,
		Directory: filepath.Join(os.Getenv(killDirectory), "sorted"), Log: slog.New(slog.DiscardHandler),
	}
	_, err = a.Once(t.Context())
	require.NoError(t, err)
}

// openAs opens a database as the node of a session does.
func openAs(t *testing.T, url string, session uuid.UUID) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, 2, postgres.Options{Process: job.ProcessOf(session)})
	require.NoError(t, err)
	return db
}

// disconnect ends the database connections of the node of a session, and returns how many there were.
func (b *bundle) disconnect(session uuid.UUID) int {
	b.t.Helper()
	return one[int](b, `WITH mine AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE application_name = $1)
		SELECT count(pg_terminate_backend(pid, 60000)) FROM mine`, job.ProcessOf(session).Application())
}

// kill starts a process that exports the day and is killed, and reports whether it was.
func (b *bundle) kill(directory, step string, after int) bool {
	b.t.Helper()
	binary, err := os.Executable()
	require.NoError(b.t, err)
	id := uuid.New()
	command := exec.CommandContext(b.t.Context(), binary, "-test.run=^TestChild$")
	command.Env = append(os.Environ(), killURL+"="+b.url, killDirectory+"="+directory, killSession+"="+id.String(),
		killStep+"="+step, killAfter+"="+strconv.Itoa(after))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err = command.Run()
	b.disconnect(id) // what the process had sent to the database may be running still
	b.exec(`DELETE FROM session WHERE id = $1`, id)
	if err == nil {
		return false
	}
	status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
	require.True(b.t, status.Signaled() && status.Signal() == syscall.SIGKILL, "%s: %v\n%s", step, err, &output)
	return true
}

// whole checks that each manifest that was written describes objects that are whole, or has a later one.
func (b *bundle) whole(a *archive.Archive) {
	b.t.Helper()
	names, err := a.Days(b.t.Context(), day, day)
	require.NoError(b.t, err)
	for _, name := range names {
		v, err := a.Verify(b.t.Context(), name)
		require.NoError(b.t, err)
		for _, f := range v.Findings {
			require.Equal(b.t, "no manifest names this object", f.Problem, f.Object)
		}
	}
}

// TestKill: a process dies by SIGKILL at each step, and before, during and after its writes. After each, what a manifest
// names is whole, the day is not dropped unless it is archived, and another process exports it. KILLS is how often.
func TestKill(t *testing.T) {
	t.Parallel()
	kills, _ := strconv.Atoi(os.Getenv("KILLS"))
	kills = max(kills, 3)
	b := setup(t)
	b.fill(60)
	b.require()
	directory := t.TempDir()
	var err error
	b.store, err = disk.Open(filepath.Join(directory, "archive"))
	require.NoError(t, err)
	defer b.store.Close() //nolint:errcheck // read only
	id := uuid.New()
	connected := openAs(t, b.url, id)
	_, err = connected.Archive().ArchiveRequired(t.Context())
	require.NoError(t, err)
	require.Positive(t, b.disconnect(id), "the connections of a process are found")
	connected.Close()
	killed := 0
	for _, step := range []string{
		"close", "take", "read runs", "read skips", "part", "manifest", "verify", "sweep", "finish",
	} {
		for n := range kills {
			if step == "close" {
				b.exec(`DROP TRIGGER IF EXISTS late ON run_history_20200229`)
				b.exec(`DELETE FROM archive_day WHERE day = $1`, day.Start())
			} else {
				b.exec(fmt.Sprintf(lateRunNumber, 100+n)) // the next generation has one row more
			}
			if b.kill(directory, step, n%7) {
				killed++
			}
			b.whole(archive.New(b.store))
			if one[bool](b, `SELECT count(*) = 0 FROM archive_day WHERE day = $1 AND archived_at IS NOT NULL AND NOT changed`,
				day.Start()) {
				require.NotContains(t, b.drop(), "run_history_20200229")
			}
			a, id := b.node()
			a.Directory = filepath.Join(directory, "sorted")
			for range 3 { // an object with another content is found once
				_, err := a.Once(t.Context())
				require.NoError(t, err)
			}
			b.exec(`DELETE FROM session WHERE id = $1`, id)
			b.manifest()
			b.exec(`DELETE FROM run_history WHERE seq >= 100`)
			left, err := filepath.Glob(filepath.Join(directory, "sorted", "belfry-archive", "*", "*"))
			require.NoError(t, err)
			require.Empty(t, left, "files of the dead process")
		}
	}
	require.Greater(t, killed, 9*kills*9/10)
}

// lateRunNumber is lateRun with a number.
const lateRunNumber = `INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt,
	origin, status, queue_id) SELECT partition, %d, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
	status, queue_id FROM run_history LIMIT 1`
