package postgres_test

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// These are the migrations of a program: those that are shipped, and later ones that the test adds. A number below zero
// is that of a contract migration.
func program(t *testing.T, later ...int64) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(postgres.Migrations(), "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(postgres.Migrations(), name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: text}
	}
	for _, n := range later {
		text := fmt.Sprintf("CREATE TABLE later_%d (n integer);", n)
		if n < 0 {
			n = -n
			text = fmt.Sprintf("SELECT belfry_contract(%d);\n\nDROP TABLE later_%d;", n, n-1)
		}
		files[fmt.Sprintf("%d_later.sql", n)] = &fstest.MapFile{
			Data: []byte("-- +goose Up\n\nSET LOCAL lock_timeout = '500ms';\n\n" + text + "\n"),
		}
	}
	return files
}

// upgraded is a database with nodes, migrated by the owner, who is no superuser.
type upgraded struct {
	t            *testing.T
	owner, nodes string // URLs
}

func newUpgraded(t *testing.T) *upgraded {
	t.Helper()
	asOwner, url, owner := ownedBy(t, "LOGIN")
	exec(t, url, `GRANT belfry_api, belfry_engine TO `+owner+` WITH ADMIN OPTION`)
	u := &upgraded{t: t, owner: asOwner}
	require.NotZero(t, u.migrate(program(t), false))
	role := pgtest.Role(t, url, "LOGIN")
	require.NoError(t, postgres.GrantServer(t.Context(), asOwner, postgres.GrantParams{Role: role}))
	u.nodes = pgtest.As(t, url, role)
	return u
}

func (u *upgraded) migrate(files fs.FS, contract bool) int {
	u.t.Helper()
	n, err := postgres.MigrateFiles(u.t.Context(), u.owner, files, postgres.MigrateParams{Contract: contract})
	require.NoError(u.t, err)
	return n
}

func (u *upgraded) refuses(files fs.FS, contract bool, applied int) error {
	u.t.Helper()
	n, err := postgres.MigrateFiles(u.t.Context(), u.owner, files, postgres.MigrateParams{Contract: contract})
	require.Error(u.t, err)
	require.Equal(u.t, applied, n)
	return err
}

func (u *upgraded) schema(files fs.FS) postgres.Schema {
	u.t.Helper()
	s, err := postgres.ReadSchemaOf(u.t.Context(), u.nodes, files)
	require.NoError(u.t, err)
	return s
}

// node returns the store of a node and its session. Schema is the last version that it knows; 0: it reports none.
func (u *upgraded) node(name, version string, schema int64) (*pgtest.Store, uuid.UUID) {
	u.t.Helper()
	s, err := postgres.Open(u.t.Context(), u.nodes, 2, postgres.Options{Node: &doctor.Node{Version: version, Schema: schema}})
	require.NoError(u.t, err)
	u.t.Cleanup(s.Close)
	store, id := pgtest.StoreOf(s), uuid.New()
	_, err = store.Register(u.t.Context(), id, name, time.Hour)
	require.NoError(u.t, err)
	return store, id
}

// TestContractWaitsForOldNodes: belfry migrate stops before a contract migration, and belfry migrate --contract applies
// it once no live node is left that does not know it. Such a node has no session from then on.
func TestContractWaitsForOldNodes(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	ctx := t.Context()
	before := u.schema(program(t))
	latest := before.Latest
	ancient, ancientID := u.node("ancient", "v1", 0)
	old, oldID := u.node("old", "v2", latest)
	newer := program(t, latest+1, -(latest + 2))

	require.Equal(t, 1, u.migrate(newer, false))
	s := u.schema(newer)
	require.Equal(t, postgres.Schema{Current: latest + 1, Needed: latest + 1, Latest: latest + 2}, s)
	require.Contains(t, s.Advice(), "belfry migrate --contract")
	require.Zero(t, u.migrate(newer, false))
	s = u.schema(program(t))
	require.Zero(t, s.Oldest, "the old program works on it")

	u.node("new", "v3", latest+2)
	err := u.refuses(newer, true, 0)
	require.ErrorContains(t, err, "stop them: ancient (v1), old (v2) (SQLSTATE BF002)")
	require.NoError(t, ancient.Unregister(ctx, ancientID))
	exec(t, u.owner, `UPDATE session SET expires_at = now() WHERE name = 'old'`) // it is suspended
	require.Equal(t, 1, u.migrate(newer, true))

	require.Equal(t, postgres.Schema{Current: latest + 2, Needed: latest + 1, Latest: latest + 2}, u.schema(newer))
	s = u.schema(program(t))
	require.Equal(t, latest+2, s.Oldest)
	require.Less(t, s.Latest, s.Oldest, "the old program must not start")
	_, err = old.Renew(ctx, oldID, time.Hour, true)
	require.ErrorContains(t, err, "a contract migration removed what this node uses")
	_, err = old.Register(ctx, uuid.New(), "old", time.Hour)
	require.ErrorContains(t, err, "a contract migration removed what this node uses")
	require.NoError(t, old.Unregister(ctx, oldID))
	_, id := u.node("new too", "v3", latest+2)
	require.NotEqual(t, uuid.Nil, id)
}

// TestContractInOrder: migrations are applied in order, each kind by its own command.
func TestContractInOrder(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	n := u.schema(program(t)).Latest
	u.node("new", "v3", n+3)
	two := program(t, n+1, -(n + 2), n+3, -(n + 4))

	require.ErrorIs(t, u.refuses(two, true, 0), postgres.ErrExpand)
	require.ErrorIs(t, u.refuses(two, false, 1), postgres.ErrContract)
	require.Equal(t, n+1, u.schema(two).Current)
	require.ErrorIs(t, u.refuses(two, false, 0), postgres.ErrContract)
	require.Equal(t, 1, u.migrate(two, true))
	require.Contains(t, u.schema(two).Advice(), "not up to date; run: belfry migrate")
	require.Equal(t, 1, u.migrate(two, false))
	require.ErrorContains(t, u.refuses(two, true, 0), "new (v3)")
	require.Equal(t, n+3, u.schema(two).Current)
	require.Equal(t, n+2, u.schema(program(t)).Oldest)
	applied, err := postgres.MigrateFiles(t.Context(), u.owner, two, postgres.MigrateParams{All: true})
	require.ErrorContains(t, err, "new (v3)", "All does not mean that nodes are ignored")
	require.Zero(t, applied)
}

// TestContractOfANewDatabase: a database that no node has used gets all migrations at once.
func TestContractOfANewDatabase(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	n := u.schema(program(t)).Latest
	newer := program(t, n+1, -(n + 2), n+3)
	require.Equal(t, 3, u.migrate(newer, false))
	require.Equal(t, fmt.Sprintf("the schema is up to date, at version %d", n+3), u.schema(newer).Advice())
}

// TestContractNamesItsNumber: the number is stored, so it must be right.
func TestContractNamesItsNumber(t *testing.T) {
	t.Parallel()
	_, err := postgres.MigrateFiles(t.Context(), "postgres://127.0.0.1:1/none", fstest.MapFS{
		"31_later.sql": {Data: []byte("-- +goose Up\n\nSELECT belfry_contract(30);\n")},
	}, postgres.MigrateParams{})
	require.ErrorContains(t, err, "migration 31_later.sql calls belfry_contract with another number, 30")
}

// TestANodeRegistersDuringAContract: a node that starts while a contract migration is applied waits for its end.
func TestANodeRegistersDuringAContract(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	ctx := t.Context()
	n := u.schema(program(t)).Latest
	s, err := postgres.Open(ctx, u.nodes, 2, postgres.Options{Node: &doctor.Node{Version: "v2", Schema: n}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(ctx, u.owner)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT belfry_contract($1)`, n+1)
	require.NoError(t, err)
	registered := make(chan error, 1)
	go func() {
		_, err := pgtest.StoreOf(s).Register(ctx, uuid.New(), "old", time.Hour)
		registered <- err
	}()
	watch, err := pgx.Connect(ctx, u.owner)
	require.NoError(t, err)
	defer func() { require.NoError(t, watch.Close(ctx)) }()
	require.Eventually(t, func() (waits bool) {
		err := watch.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'session'::regclass)`).
			Scan(&waits)
		return err == nil && waits
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorContains(t, <-registered, "a contract migration removed what this node uses")
}
