package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

func TestDepth(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	for _, sql := range []string{
		`INSERT INTO namespace (id, name) VALUES ('00000000-0000-7000-8000-000000000002', 'team')`,
		`INSERT INTO queue (namespace_id, name)
			VALUES ('00000000-0000-7000-8000-000000000002', 'mail'),
			       ('00000000-0000-7000-8000-000000000003', 'of-nobody')`,
		`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
			queue_id, needs_sweep)
		 SELECT p, 0, 1, gen_random_uuid(), now(), now() + w, s, 0, 0, 0, 0, q.id, false
		 FROM queue q, (VALUES (1, interval '1 h', 0), (1, '-1 s', 0), (2, '-1 s', 0), (2, '0', 1), (2, '0', 2),
		                        (9, '0', 1)) v (p, w, s)
		 WHERE q.name = 'mail' OR p = 1`,
		`INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message)
		 SELECT p, gen_random_uuid(), now(), 0, now(), 1, 'lost', '' FROM generate_series(1, 3) p`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, err := store.Register(t.Context(), uuid.New(), "one", time.Minute)
	require.NoError(t, err)
	d, err := store.Depth(t.Context(), []int16{1, 2})
	require.NoError(t, err)
	require.Equal(t, postgres.Depth{
		Queues: []postgres.QueueDepth{
			{Namespace: "team", Queue: "mail", ID: 1, Scheduled: 1, Due: 2, Running: 1, Waiting: 1},
			{Namespace: "00000000-0000-7000-8000-000000000003", Queue: "of-nobody", ID: 2, Scheduled: 1, Due: 1},
		},
		DeadLetters: 2, Sessions: 1,
	}, d)
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
		{&pgconn.PgError{Code: "28P01"}, false}, // wrong password
		{&pgconn.PgError{Code: "3D000"}, false}, // no such database
		{errors.New("the server is PostgreSQL 12"), false},
	} {
		require.Equal(t, tc.want, postgres.MayPass(fmt.Errorf("connect: %w", tc.err)), "%v", tc.err)
	}
}
