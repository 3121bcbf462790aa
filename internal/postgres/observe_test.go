package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/store"
)

func TestDepth(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	for _, sql := range []string{
		`INSERT INTO namespace (id, name) VALUES ('00000000-0000-7000-8000-000000000002', 'team')`,
		`INSERT INTO queue (namespace_id, name)
			VALUES ('00000000-0000-7000-8000-000000000002', 'mail'),
			       ('00000000-0000-7000-8000-000000000003', 'ownerless')`,
		`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
			queue_id, needs_sweep)
		 SELECT p, 0, 1, gen_random_uuid(), now(), now() + w, s, 0, 0, 0, 0, q.id, false
		 FROM queue q, (VALUES (1, interval '1 h', 0), (1, '-1 s', 0), (2, '-1 s', 0), (2, '0', 1), (2, '0', 2),
		                        (9, '0', 1)) v (p, w, s)
		 WHERE q.name = 'mail' OR p = 1`,
		`INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, queue_id, status,
		                          cause)
		 SELECT p, gen_random_uuid(), now(), 0, now(), 1, 'lost', '', 1, 0, 'lost' FROM generate_series(1, 3) p`,
		`SELECT belfry_create_history(5)`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, err := store.Register(t.Context(), uuid.New(), "one", time.Minute)
	require.NoError(t, err)
	d, err := store.Depth(t.Context(), []int16{1, 2}, []int32{2, 77})
	require.NoError(t, err)
	require.Nil(t, d.BackupAge, "none was reported")
	require.Positive(t, d.Bytes)
	d.Bytes = 0
	for i := range d.Queues {
		require.Greater(t, d.Queues[i].OldestDue, 1.0)
		d.Queues[i].OldestDue = 0
	}
	mail := postgres.QueueName{Namespace: "team", Queue: "mail", ID: 1}
	ownerless := postgres.QueueName{Namespace: "00000000-0000-7000-8000-000000000003", Queue: "ownerless", ID: 2}
	require.Equal(t, postgres.Depth{
		Queues: []postgres.QueueDepth{
			{QueueName: mail, Due: 2, Running: 1, Waiting: 1},
			{QueueName: ownerless, Due: 1},
		},
		Scheduled:   []postgres.QueueCount{{QueueName: mail, Count: 1}, {QueueName: ownerless, Count: 1}},
		DeadLetters: []postgres.QueueCount{{QueueName: mail, Count: 2}}, WorkerSlots: []postgres.QueueCount{},
		Names: []postgres.QueueName{ownerless, {ID: 77}}, Sessions: 1, DaysAhead: 5,
	}, d)

	_, err = store.BackupDone(t.Context())
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE cluster SET backed_up_at = backed_up_at - interval '1 h'`)
	require.NoError(t, err)
	d, err = store.Depth(t.Context(), nil, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, *d.BackupAge, 3600.0)
}

// TestOldestDue: a run that waits for nothing but a start counts. One that its queue, its job or a restore holds back does
// not.
func TestOldestDue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`INSERT INTO queue (namespace_id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'q')`)
	// Two jobs with a run that is due for an hour and for a minute. The first job has one run at a time.
	exec(`
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 needs_sweep)
SELECT 1, 0, 1, ('00000000-0000-7000-8000-00000000000' || j)::uuid, now() + w, now() + w, s, 0, 0, 0, 2 - j, q.id, false
FROM queue q, (VALUES (1, interval '-1 h', 0), (2, '-1 min', 0), (2, '-1 s', 1)) v (j, w, s)`)
	oldest := func() float64 {
		t.Helper()
		d, err := store.Depth(t.Context(), []int16{1}, nil)
		require.NoError(t, err)
		require.Len(t, d.Queues, 1)
		return d.Queues[0].OldestDue
	}
	require.Greater(t, oldest(), 3600.0)
	exec(`UPDATE run SET state = 1, job_id = '00000000-0000-7000-8000-000000000001' WHERE state = 1`)
	got := oldest()
	require.Greater(t, got, 60.0)
	require.Less(t, got, 3600.0, "the first job has a run in progress")
	exec(`UPDATE queue SET paused = true`)
	require.Zero(t, oldest())
	exec(`UPDATE queue SET paused = false`)
	exec(`UPDATE cluster SET held_until = now() - interval '1 s'`)
	require.Zero(t, oldest())
	exec(`UPDATE cluster SET held_until = '-infinity'`)
	require.Greater(t, oldest(), 60.0, "the restore is accepted")
}

// TestARestoreThatHoldsRunsIsMeasured until it is accepted.
func TestARestoreThatHoldsRunsIsMeasured(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	heldFor := func(change string) float64 {
		t.Helper()
		_, err := pool.Exec(t.Context(), `UPDATE cluster SET `+change)
		require.NoError(t, err)
		d, err := store.Depth(t.Context(), nil, nil)
		require.NoError(t, err)
		return d.HeldFor
	}
	require.Zero(t, heldFor(`backed_up_at = now()`), "there was no restore")
	require.GreaterOrEqual(t, heldFor(`held_until = now() - interval '1 h'`), 3600.0)
	require.Zero(t, heldFor(`held_until = '-infinity'`), "it is accepted")
}

// TestWorkerSlots: each worker counts in one partition, so that nodes add up.
func TestWorkerSlots(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	for range 20 {
		_, _, err := store.OpenSession(t.Context(), job.SessionParams{
			Namespace: uuid.MustParse("00000000-0000-7000-8000-000000000001"), Queue: "q", Make: true, Name: "w",
			TTL: time.Minute, Slots: 3,
		})
		require.NoError(t, err)
	}
	sum, nodes := int64(0), 0
	for first := int16(0); first < job.Partitions; first += 64 {
		var partitions []int16
		for p := first; p < first+64; p++ {
			partitions = append(partitions, p)
		}
		d, err := store.Depth(t.Context(), partitions, nil)
		require.NoError(t, err)
		for _, q := range d.WorkerSlots {
			require.Equal(t, "q", q.Queue)
			sum += q.Count
			nodes++
		}
	}
	require.EqualValues(t, 60, sum)
	require.Greater(t, nodes, 1, "not all on one node")
}

func TestMayPass(t *testing.T) {
	t.Parallel()
	away := pgtest.URL(t)
	config, err := pgconn.ParseConfig(away)
	require.NoError(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config.Port = uint16(listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, listener.Close())
	config.Fallbacks = nil
	_, refused := pgconn.ConnectConfig(t.Context(), config)
	require.Error(t, refused)
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{refused, true},
		{context.DeadlineExceeded, true},
		{&pgconn.PgError{Code: "57P03"}, true},  // starting up
		{&pgconn.PgError{Code: "53300"}, true},  // too many connections
		{&pgconn.PgError{Code: "57014"}, true},  // a statement took too long
		{&pgconn.PgError{Code: "28P01"}, false}, // wrong password
		{&pgconn.PgError{Code: "3D000"}, false}, // no such database
		{errors.New("the server is PostgreSQL 12"), false},
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		{&fs.PathError{Op: "open", Err: syscall.ENOENT}, false}, // such as the root certificate
	} {
		require.Equal(t, tc.want, store.MayPass(fmt.Errorf("connect: %w", tc.err)), "%v", tc.err)
	}
}
