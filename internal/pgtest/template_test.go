package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// ownServer returns the test server with a state of its own, as another process would have it.
func ownServer(t testing.TB) *server {
	t.Helper()
	s, err := newServer(os.Getenv(variable))
	require.NoError(t, err)
	return s
}

// change adds a migration to s and returns how often the migrations ran.
func change(t testing.TB, s *server, name, sql string) *atomic.Int32 {
	t.Helper()
	files := fstest.MapFS{name: {Data: []byte(sql)}}
	entries, err := fs.ReadDir(s.files, ".")
	require.NoError(t, err)
	for _, entry := range entries {
		content, err := fs.ReadFile(s.files, entry.Name())
		require.NoError(t, err)
		files[entry.Name()] = &fstest.MapFile{Data: content}
	}
	s.files = files
	var ran atomic.Int32
	s.migrate = func(ctx context.Context, url string) error {
		ran.Add(1)
		if err := migrate(ctx, url); err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, sql)
		return errors.Join(err, conn.Close(ctx))
	}
	return &ran
}

// templateOf returns the template of s, which is dropped at the end of the test.
func templateOf(t testing.TB, s *server) string {
	t.Helper()
	template, err := s.findTemplate(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dropTemplate(s, template)) })
	return template
}

func dropTemplate(s *server, template string) error {
	ctx := context.Background()
	err := s.exec(ctx, `ALTER DATABASE `+quote(template)+` WITH IS_TEMPLATE false`)
	if is(err, undefinedDatabase) {
		return nil
	}
	return errors.Join(err, s.drop(ctx, template))
}

func databaseOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return strings.TrimPrefix(u.Path, "/")
}

func exists(t testing.TB, s *server, name string) (found bool) {
	t.Helper()
	conn, err := s.connect(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	err = conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&found)
	require.NoError(t, err)
	return found
}

func TestChangedMigrationMeansAnotherTemplate(t *testing.T) {
	t.Parallel()
	before, after := ownServer(t), ownServer(t)
	change(t, after, "9999_"+rand.Text()+".sql", `CREATE TABLE added (n int)`)
	template, err := before.findTemplate(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, template, templateOf(t, after))

	conn, err := pgx.Connect(t.Context(), after.give(t, (*server).clone))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO added VALUES (1)`)
	require.NoError(t, err)
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	one := fstest.MapFS{"1.sql": {Data: []byte("a")}, "2.sql": {Data: []byte("b")}}
	same, err := fingerprint(one, "150018")
	require.NoError(t, err)
	tests := map[string]struct {
		files   fstest.MapFS
		version string
	}{
		"content": {fstest.MapFS{"1.sql": {Data: []byte("a")}, "2.sql": {Data: []byte("c")}}, "150018"},
		"name":    {fstest.MapFS{"1.sql": {Data: []byte("a")}, "3.sql": {Data: []byte("b")}}, "150018"},
		"border":  {fstest.MapFS{"1.sql": {Data: []byte("ab")}, "2.sql": {}}, "150018"},
		"fewer":   {fstest.MapFS{"1.sql": {Data: []byte("a")}}, "150018"},
		"server":  {one, "180004"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, err := fingerprint(test.files, test.version)
			require.NoError(t, err)
			require.NotEqual(t, same, other)
		})
	}
}

func TestTemplateIsMarkedAndClosed(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	template, err := s.findTemplate(t.Context())
	require.NoError(t, err)
	conn, err := s.connect(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var marked, open bool
	err = conn.QueryRow(t.Context(), `SELECT datistemplate, datallowconn FROM pg_database WHERE datname = $1`,
		template).
		Scan(&marked, &open)
	require.NoError(t, err)
	require.True(t, marked)
	require.False(t, open)
}

func TestBrokenMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var made string
	broken := errors.New("broken")
	s.files = fstest.MapFS{rand.Text(): {}}
	s.migrate = func(_ context.Context, url string) error {
		made = databaseOf(t, url)
		return broken
	}
	_, err := s.findTemplate(t.Context())
	require.ErrorIs(t, err, broken)
	require.NotEmpty(t, made)
	require.False(t, exists(t, s, made))
}

// The lock only saves work: a process that creates a template without it must do no harm.
func TestTemplateMadeBySomeoneFaster(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	change(t, s, rand.Text(), `SELECT 1`)
	template := templateOf(t, s)
	late := databaseName(s.started, t.Name())
	require.NoError(t, s.makeTemplate(t.Context(), template, late))
	require.False(t, exists(t, s, late))
	require.True(t, exists(t, s, template))
}

func TestCloneMakesALostTemplateAgain(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	ran := change(t, s, rand.Text(), `SELECT 1`)
	require.NoError(t, dropTemplate(s, templateOf(t, s)))
	require.True(t, exists(t, s, databaseOf(t, s.give(t, (*server).clone))))
	require.EqualValues(t, 2, ran.Load())
}
