package archiver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// day is a day of history that ended long ago.
var day = archive.DayOf(time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC))

// bundle is a database with a day of history, and an empty archive.
type bundle struct {
	t     *testing.T
	url   string        // of a server
	pool  *pgxpool.Pool // of the owner
	db    *postgres.DB  // of a server
	store *disk.Store

	directory string // of the store
}

func setup(t *testing.T) *bundle {
	b := &bundle{t: t}
	b.url, b.pool = pgtest.ServerURL(t)
	b.db = postgres.New(pgtest.AsServer(t, b.pool), postgres.Options{})
	var err error
	b.directory = filepath.Join(t.TempDir(), "archive")
	b.store, err = disk.Open(b.directory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.store.Close()) })
	for _, parent := range []string{"run_history", "run_output"} {
		name := parent + day.Start().Format("_20060102")
		b.exec(fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING COMMENTS)
			WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false)`, name, parent)) // its locks delay a drop
		b.exec(fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, parent, name,
			day.Start().Format(time.RFC3339), day.Start().AddDate(0, 0, 1).Format(time.RFC3339)))
	}
	b.exec(`ALTER TABLE cursor_skip SET (autovacuum_enabled = false)`)
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(context.WithoutCancel(b.t.Context()), sql, args...)
	require.NoError(b.t, err)
}

// one reads one value.
func one[T any](b *bundle, sql string, args ...any) (v T) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&v))
	return v
}

// fill writes runs of two namespaces, with everything that a row can have, and skips.
func (b *bundle) fill(runs int) {
	b.exec(`INSERT INTO queue (namespace_id, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'a'),
		('00000000-0000-0000-0000-00000000000b', 'b')`)
	b.exec(`INSERT INTO job_version (partition, job_id, version, namespace_id, actor, definition, created_at,
		    timeout_ms)
		SELECT n % 256, ('00000000-0000-0000-0000-0000000000' || lpad(to_hex(n), 2, '0'))::uuid, 1, q.namespace_id, 'test',
		    jsonb_build_object('name', 'job ' || n, 'labels', jsonb_build_object('team', 'x')), now(), 0
		FROM generate_series(0, 19) n, queue q WHERE q.name = CASE n % 2 WHEN 0 THEN 'a' ELSE 'b' END`)
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, started_at, ended, attempt,
		    origin, status, queue_id, session_id, due_to, count, reason, message, result, idempotency_key, attempts, trace)
		SELECT j.partition, n % 3, 1, j.job_id, $1::timestamptz + n * interval '1 s' / 7,
		    $1::timestamptz + n * interval '1 s', $1::timestamptz + n * interval '86399 s' / $2,
		    CASE WHEN n % 4 > 0 THEN $1::timestamptz + n * interval '1 s' END, n % 4 + 1, n % 5, n % 5, n % 600, q.id,
		    CASE WHEN n % 3 = 0 THEN gen_random_uuid() END, CASE WHEN n % 11 = 0 THEN $1::timestamptz + interval '2 d' END,
		    nullif(n % 11, 1), CASE WHEN n % 4 > 0 THEN 'failed' END, nullif(repeat('é|', n % 50), ''),
		    CASE WHEN n % 7 = 0 THEN '{"ok": true}' END, CASE WHEN n % 9 = 0 THEN 'key-' || n END,
		    CASE WHEN n % 6 = 0 THEN $3::jsonb END, CASE WHEN n % 8 = 0 THEN '00-trace' END
		FROM generate_series(1, $2::int) n
		JOIN job_version j ON j.job_id = ('00000000-0000-0000-0000-0000000000' || lpad(to_hex(n % 20), 2, '0'))::uuid
		JOIN queue q ON q.namespace_id = j.namespace_id`, day.Start(), runs,
		`[{"attempt": 1, "started_at": "2020-02-29T01:02:03.000004Z", "ended_at": "2020-02-29T01:02:04Z", "outcome": 4,
		   "message": "lost", "node": "n1"}]`)
	b.exec(`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed)
		VALUES (1, 1, '00000000-0000-0000-0000-00000000000a', '', '{"every": "1s"}', '{}')`)
	b.exec(`INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at, namespace_id)
		SELECT n % 2, n % 3, $1::timestamptz + n * interval '1 min', $1::timestamptz + n * interval '2 min', n, 'missed',
		    $1::timestamptz + n % 3 * interval '1 h', '00000000-0000-0000-0000-00000000000a'
		FROM generate_series(1, 100) n`, day.Start())
}

// node returns an archiver with a session of its own.
func (b *bundle) node() (*archiver.Archiver, uuid.UUID) {
	id := uuid.New()
	_, err := b.db.Members().Register(b.t.Context(), id, "test", time.Hour)
	require.NoError(b.t, err)
	return &archiver.Archiver{
		Days: b.db.Archive(), Store: b.store, Session: func() uuid.UUID { return id },
		Directory: filepath.Join(b.t.TempDir(), "sorted"), Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)),
	}, id
}

// manifest returns the newest manifest of the day, verified, and its sums compared with the table.
func (b *bundle) manifest() archive.Manifest {
	b.t.Helper()
	a := archive.New(b.store)
	names, err := a.Days(b.t.Context(), day, day)
	require.NoError(b.t, err)
	require.Len(b.t, names, 1)
	v, err := a.Verify(b.t.Context(), names[0])
	require.NoError(b.t, err)
	require.Empty(b.t, v.Findings)
	runs, skips, err := b.db.Archive().SumDay(b.t.Context(), day)
	require.NoError(b.t, err)
	got := v.Manifest.Sum(archive.Runs)
	require.Equal(b.t, [2]any{runs.Rows, runs.Keys}, [2]any{got.Rows, got.Keys})
	got = v.Manifest.Sum(archive.Skips)
	require.Equal(b.t, [2]any{skips.Rows, skips.Keys}, [2]any{got.Rows, got.Keys})
	require.Equal(b.t, names[0], one[string](b, `SELECT manifest FROM archive_day WHERE day = $1`, day.Start()))
	return v.Manifest
}

func (b *bundle) require() {
	b.t.Helper()
	_, err := b.db.Archive().RequireArchive(b.t.Context(), true)
	require.NoError(b.t, err)
}

func (b *bundle) drop() []string {
	b.t.Helper()
	dropped, err := pgtest.DropHistory(b.t.Context(), b.db.Engine(), 365*24*time.Hour)
	require.NoError(b.t, err)
	return dropped
}

// TestADayIsArchivedBeforeItIsDropped, if that is required.
func TestADayIsArchivedBeforeItIsDropped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(15_000) // more pages than one statement reads
	require.Greater(t, one[int](b, `SELECT pg_relation_size('run_history_20200229') / 8192`), 256)
	a, _ := b.node()
	b.require()
	require.Equal(t, []string{"run_output_20200229"}, b.drop(), "output is not archived, and history is held back")
	kept, err := b.db.Engine().DropSkips(t.Context(), time.Hour, 1000)
	require.NoError(t, err)
	require.Zero(t, kept, "skips are held back")

	_, err = a.Once(t.Context())
	require.NoError(t, err)
	m := b.manifest()
	require.EqualValues(t, 15_000, m.Sum(archive.Runs).Rows)
	require.EqualValues(t, 100, m.Sum(archive.Skips).Rows)
	require.Equal(t, 1, m.Generation)

	// A run found in the archive is what the API shows.
	namespace, id := uuid.MustParse("00000000-0000-0000-0000-00000000000b"), uuid.UUID{15: 7}
	found := map[string]job.Entry{}
	for r, err := range archive.New(b.store).Runs(t.Context(), archive.Query{Namespace: namespace, Job: id, From: day, To: day}) {
		require.NoError(t, err)
		e, err := r.Entry()
		require.NoError(t, err)
		found[r.Key()] = e
	}
	require.Len(t, found, 750)
	checked := 0
	for _, e := range found {
		if checked++; checked > 100 {
			break
		}
		entries, err := b.db.API().Run(t.Context(), namespace, e.Key)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		entries[0].JobName = e.JobName // of the job, which is gone; the archive has that of its version
		require.Equal(t, entries[0], e)
		require.Equal(t, "job 7", e.JobName)
	}

	require.Equal(t, []string{"run_history_20200229"}, b.drop())
	n, err := b.db.Engine().DropSkips(t.Context(), time.Hour, 1000)
	require.NoError(t, err)
	require.Equal(t, 100, n)
	pause, err := a.Once(t.Context())
	require.NoError(t, err)
	require.NotZero(t, pause)
}

// TestALateRowThatTakesLong: its day is marked as changed already, but cannot be taken before the row is committed.
func TestALateRowThatTakesLong(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]string{"run": lateRun, "skip": lateSkip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fill(100)
			b.require()
			a, _ := b.node()
			_, err := a.Once(t.Context())
			require.NoError(t, err)
			b.exec(`UPDATE archive_day SET changed = true WHERE day = $1`, day.Start())
			tx, err := b.pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), late)
			require.NoError(t, err)
			_, err = a.Once(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			require.NotContains(t, b.drop(), "run_history_20200229")
			_, err = a.Once(t.Context())
			require.NoError(t, err)
			b.manifest()
			require.Contains(t, b.drop(), "run_history_20200229")
		})
	}
}

// TestSkipsOfDaysThatAreGone are removed, also if the archive is required.
func TestSkipsOfDaysThatAreGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(1)
	b.exec(`UPDATE cursor_skip SET created_at = created_at - interval '2 d' WHERE partition = 0`)
	b.require()
	n, err := b.db.Engine().DropSkips(t.Context(), time.Hour, 1000)
	require.NoError(t, err)
	require.Equal(t, 50, n)
}

// Rows that come after their day was closed.
const (
	lateRun = `INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
		status, queue_id) SELECT partition, 99, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status,
		queue_id FROM run_history LIMIT 1`
	lateSkip = `INSERT INTO cursor_skip SELECT partition, 99, from_due, to_due, count, reason, created_at, namespace_id
		FROM cursor_skip LIMIT 1`
)

var errCrash = errors.New("crash")

// TestCrashes: a node that dies at any step leaves nothing that the next one cannot continue.
func TestCrashes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(300)
	dead := map[string]int{}
	for n := 1; ; n++ {
		a, id := b.node()
		steps := 0
		a.Step = func(name string) error {
			if steps++; steps == n {
				dead[name]++
				return errCrash
			}
			return nil
		}
		_, err := a.Once(t.Context())
		if err == nil {
			break
		}
		require.ErrorIs(t, err, errCrash)
		b.exec(`DELETE FROM session WHERE id = $1`, id)
		if n%2 == 0 { // also from the beginning
			b.exec(`UPDATE archive_day SET archived_at = NULL WHERE day = $1`, day.Start())
		}
	}
	require.Len(t, dead, 9, "%v", dead)
	require.Equal(t, 1, b.manifest().Generation, "the same rows give the same objects")
}

// TestALateRowIsArchivedToo: as the next generation, and the day is not dropped before.
func TestALateRowIsArchivedToo(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]string{
		"run":         lateRun,
		"deleted run": `DELETE FROM run_history WHERE ctid = (SELECT ctid FROM run_history LIMIT 1)`,
		"changed run": `UPDATE run_history SET seq = 99 WHERE ctid = (SELECT ctid FROM run_history LIMIT 1)`,
		"skip":        lateSkip,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fill(100)
			b.require()
			a, _ := b.node()
			_, err := a.Once(t.Context())
			require.NoError(t, err)
			b.exec(late)
			require.NotContains(t, b.drop(), "run_history_20200229")
			_, err = a.Once(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, b.manifest().Generation)
			require.Contains(t, b.drop(), "run_history_20200229")
		})
	}
}

// TestARowThatComesDuringTheExport: the day is exported again, whatever step the row came at.
func TestARowThatComesDuringTheExport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	a, _ := b.node()
	seq := 1000
	for _, at := range []string{"read runs", "read skips", "part", "manifest", "verify", "sweep", "finish"} {
		b.exec(`UPDATE archive_day SET changed = true WHERE day = $1`, day.Start())
		a.Step = func(name string) error {
			if name == at {
				seq++
				b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt,
					origin, status, queue_id) SELECT partition, $1, version, job_id, due_at, run_at, ended_at, ended, attempt,
					origin, status, queue_id FROM run_history LIMIT 1`, seq)
				a.Step = nil
			}
			return nil
		}
		_, err := a.Once(t.Context())
		changed := one[bool](b, `SELECT changed FROM archive_day WHERE day = $1`, day.Start())
		require.True(t, changed, at)
		_ = err // before verify, the table does not have what was read
		_, err = a.Once(t.Context())
		require.NoError(t, err, at)
		require.False(t, one[bool](b, `SELECT changed FROM archive_day WHERE day = $1`, day.Start()))
		b.manifest()
	}
}

// TestAnObjectWithAnotherContent is never overwritten: the day gets its next generation.
func TestAnObjectWithAnotherContent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	a, _ := b.node()
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	m := b.manifest()
	for i, name := range []string{m.Files[0].Name, m.Name()} {
		g := i + 2
		bad := strings.NewReplacer(".g1.", fmt.Sprintf(".g%d.", g), ".g0001.", fmt.Sprintf(".g%04d.", g)).Replace(name)
		content := []byte("another content")
		require.NoError(t, b.store.Put(t.Context(), bad, bytes.NewReader(content), int64(len(content))))
	}
	b.exec(`UPDATE archive_day SET changed = true WHERE day = $1`, day.Start())
	for range 3 { // generations 2 and 3 are taken
		_, err = a.Once(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 4, b.manifest().Generation)
}

// TestAnOwnerThatLostTheDay cannot note anything about it.
func TestAnOwnerThatLostTheDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	slow, id := b.node()
	fast, _ := b.node()
	slow.Step = func(name string) error {
		if name == "finish" {
			b.exec(`UPDATE session SET expires_at = '-infinity' WHERE id = $1`, id)
			_, err := fast.Once(t.Context())
			require.NoError(t, err)
			b.exec(`UPDATE session SET expires_at = 'infinity' WHERE id = $1`, id) // it goes on
		}
		return nil
	}
	_, err := slow.Once(t.Context())
	require.ErrorIs(t, err, job.ErrConflict)
	require.Equal(t, 1, b.manifest().Generation)
	require.EqualValues(t, 2, one[int64](b, `SELECT epoch FROM archive_day WHERE day = $1`, day.Start()))
}

// TestASlowSweepRemovesNothingOfItsSuccessor, which exports the next generation meanwhile.
func TestASlowSweepRemovesNothingOfItsSuccessor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	slow, id := b.node()
	fast, _ := b.node()
	slow.Step = func(name string) error {
		if name == "sweep" {
			b.exec(`UPDATE session SET expires_at = '-infinity' WHERE id = $1`, id)
			b.exec(`UPDATE archive_day SET changed = true WHERE day = $1`, day.Start())
			_, err := fast.Once(t.Context())
			require.NoError(t, err)
		}
		return nil
	}
	_, err := slow.Once(t.Context())
	require.ErrorIs(t, err, job.ErrConflict)
	require.Equal(t, 2, b.manifest().Generation)
}

// TestAnOwnerOfTheTablesWithoutSpecialRights: functions run with the rights of the owner, who is no superuser where a
// provider runs the database. Forced row-level security would show it nothing.
func TestAnOwnerOfTheTablesWithoutSpecialRights(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(10)
	owner := "owner_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	b.exec(`CREATE ROLE ` + owner)
	t.Cleanup(func() { b.exec(`DROP OWNED BY ` + owner + ` CASCADE; DROP ROLE ` + owner) })
	b.exec(`GRANT ALL ON SCHEMA public TO ` + owner)
	b.exec(`DO $$ DECLARE x text; BEGIN
		FOR x IN SELECT format('ALTER TABLE %I OWNER TO ` + owner + `', relname) FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') UNION ALL
			SELECT format('ALTER FUNCTION %s OWNER TO ` + owner + `', oid::regprocedure) FROM pg_proc
			WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'belfry%'
		LOOP EXECUTE x; END LOOP; END $$`)
	b.require()
	require.NotContains(t, b.drop(), "run_history_20200229", "the setting is read")
	a, _ := b.node()
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	b.exec(lateRun)
	require.NotContains(t, b.drop(), "run_history_20200229", "a late row is noted")
	_, err = a.Once(t.Context())
	require.NoError(t, err)
	require.Contains(t, b.drop(), "run_history_20200229")
}

// TestTwoNodesDoNotTakeTheSameDay.
func TestTwoNodesDoNotTakeTheSameDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(10)
	first, _ := b.node()
	_, second := b.node()
	first.Step = func(name string) error {
		if name == "read runs" {
			_, err := b.db.Archive().TakeDay(t.Context(), second)
			require.ErrorIs(t, err, job.ErrNotFound)
		}
		return nil
	}
	_, err := first.Once(t.Context())
	require.NoError(t, err)
}

// TestManySeeds: crashes and late rows at random, in any order. What the archive has in the end is what the table has.
func TestManySeeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(60)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		b.exec(`UPDATE archive_day SET changed = true WHERE day = $1`, day.Start())
		for tries := 0; ; tries++ {
			a, id := b.node()
			a.Step = func(name string) error {
				if random.IntN(8) == 0 && tries < 8 {
					return fmt.Errorf("%s: %w", name, errCrash)
				}
				return nil
			}
			_, err := a.Once(t.Context())
			b.exec(`DELETE FROM session WHERE id = $1`, id)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errCrash)
			if random.IntN(4) == 0 {
				b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt,
					origin, status, queue_id) SELECT partition, $1, version, job_id, due_at, run_at, ended_at, ended, attempt,
					origin, status, queue_id FROM run_history LIMIT 1`, 2000+int(seed)*100+tries)
			}
		}
		b.manifest()
	}
}
