package pgtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestNewIsolates(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := New(t)
			_, err := pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES (gen_random_uuid(), 'same')`)
			require.NoError(t, err)
			var count int
			require.NoError(t,
				pool.QueryRow(t.Context(), `SELECT count(*) FROM namespace WHERE name = 'same'`).Scan(&count))
			require.Equal(t, 1, count)
		})
	}
}

func TestURLIsOfTheDatabase(t *testing.T) {
	t.Parallel()
	pool := New(t)
	conn, err := pgx.Connect(t.Context(), pool.Config().ConnString())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var theirs, ours string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&theirs))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&ours))
	require.Equal(t, ours, theirs)
	require.Contains(t, ours, "testurlisofthedatabase", "the name tells which test it is")
}

func TestEmptyURLHasNoSchema(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), EmptyURL(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var tables int
	err = conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables)
	require.NoError(t, err)
	require.Zero(t, tables)
}

// It has a server of its own, because on the shared one other tests decide which test is last and drops databases.
func TestManyAtOnceAreDroppedByTheLast(t *testing.T) {
	t.Parallel()
	const many = 2 * maxTrash
	s := ownServer(t)
	var mu sync.Mutex
	var urls []string
	t.Run("group", func(t *testing.T) {
		for i := range many {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				url := s.give(t, (*server).clone)
				mu.Lock()
				defer mu.Unlock()
				urls = append(urls, url)
			})
		}
	})
	slices.Sort(urls)
	require.Len(t, slices.Compact(urls), many)
	for _, url := range urls {
		require.False(t, exists(t, s, databaseOf(t, url)), url)
	}
	require.Empty(t, s.trash)
}

func TestDatabaseName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ test, suffix string }{
		"plain":      {"TestPlan", "_testplan"},
		"subtest":    {"TestPlan/a due time", "_testplan_a_due_time"},
		"quotes":     {`Test"';--`, "_test_"},
		"not ASCII":  {"TestÜber", "_test_ber"},
		"cut at end": {strings.Repeat("x", 100), "_" + strings.Repeat("x", 31)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := databaseName(1234567890, test.test)
			require.Regexp(t, `^belfry_test_1234567890_[a-z2-7]{8}`+test.suffix+`$`, got)
			require.LessOrEqual(t, len(got), maxName)
			require.NotEqual(t, got, databaseName(1234567890, test.test))
		})
	}
}

func TestNewServerRefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"host=localhost dbname=belfry", "mysql://u:secret@h/d", "postgres://u:secret@h:port/d",
	} {
		_, err := newServer(address)
		require.ErrorContains(t, err, variable)
		require.NotContains(t, err.Error(), "secret")
	}
}
