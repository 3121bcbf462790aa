package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/problem"
)

// ownedBy returns the URL of an empty database whose owner has no other rights, and the URL for the tests' user.
func ownedBy(t *testing.T, attributes string) (asOwner, url, owner string) {
	t.Helper()
	url = pgtest.EmptyURL(t)
	owner = pgtest.Role(t, url, attributes)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(
		t.Context(), `ALTER DATABASE `+pgx.Identifier{conn.Config().Database}.Sanitize()+` OWNER TO `+owner,
	)
	require.NoError(t, err)
	return pgtest.As(t, url, owner), url, owner
}

func openAs(t *testing.T, url string) *pgtest.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, 2, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return pgtest.StoreOf(s)
}

// TestOwnerAndServerAreTwo follows the guide: an owner that is no superuser migrates, grants and creates the first
// keys, and a server logs in as another role.
func TestOwnerAndServerAreTwo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	asOwner, url, owner := ownedBy(t, "LOGIN")
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()

	_, err = postgres.Migrate(ctx, asOwner, postgres.MigrateParams{})
	require.ErrorContains(t, err, "GRANT belfry_api, belfry_engine TO that user WITH ADMIN OPTION", "the hint helps")
	_, err = conn.Exec(ctx, `GRANT belfry_api, belfry_engine TO `+owner+` WITH ADMIN OPTION`)
	require.NoError(t, err)
	_, err = postgres.Migrate(ctx, asOwner, postgres.MigrateParams{})
	require.NoError(t, err)

	role := pgtest.Role(t, url, "LOGIN")
	server := openAs(t, pgtest.As(t, url, role))
	require.Error(t, server.CheckRole(ctx), "not granted yet")
	require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: role}))
	require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: role}), "again")
	require.NoError(t, server.CheckRole(ctx))

	store := openAs(t, asOwner)
	secret, err := store.FirstKey(ctx, access.DefaultNamespace, 0)
	require.NoError(t, err)
	hash, err := access.KeyHash(secret)
	require.NoError(t, err)
	p, err := server.Principal(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, access.Admin, p.Role)
	again, err := store.FirstKey(ctx, access.DefaultNamespace, 0)
	require.NoError(t, err)
	require.Empty(t, again, "once")
	_, err = server.RevokeKey(ctx, access.DefaultNamespace, p.Key, "test")
	require.NoError(t, err)
	again, err = server.FirstKey(ctx, access.DefaultNamespace, 0)
	require.NoError(t, err)
	require.Empty(t, again, "a revoked key was a key")

	n, err := store.CreateNamespace(ctx, "second")
	require.NoError(t, err)
	name, err := server.NamespaceName(ctx, n.ID)
	require.NoError(t, err)
	require.Equal(t, "second", name)
	_, err = store.CreateNamespace(ctx, "second")
	require.ErrorIs(t, err, job.ErrConflict)
	_, err = store.CreateNamespace(ctx, "No Name")
	require.Len(t, problem.All(err), 1)
	all, err := store.Namespaces(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	_, err = server.CreateNamespace(ctx, "third")
	require.ErrorContains(t, err, "permission denied", "a server makes no namespaces")
	good, _, err := server.VerifyAudit(ctx, n.ID, access.AuditCheck{}, 1000)
	require.NoError(t, err)
	require.EqualValues(t, 1, good.Seq)

	// And it works: a job is created and its history kept.
	require.NoError(t, server.CreateHistory(ctx, 1))
	_, err = server.CreateJob(
		ctx, job.CreateParams{Namespace: n.ID, Definition: definition("j", everySecond), Actor: "test"},
	)
	require.NoError(t, err)
	require.ErrorContains(t, store.CheckRole(ctx), "owns the tables")
}

// TestUnsafeRolesAreRefused: a server does not run as a role that row-level security does not restrict, or that can
// become one.
func TestUnsafeRolesAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := pgtest.URL(t)
	for want, attributes := range map[string]string{
		"is a superuser":                    "LOGIN SUPERUSER",
		"is a superuser, or can become one": "LOGIN NOINHERIT IN ROLE " + pgtest.Role(t, url, "SUPERUSER"),
		"bypasses row-level security":       "LOGIN BYPASSRLS IN ROLE belfry_api, belfry_engine",
		"or can become a role that does": "LOGIN IN ROLE belfry_api, belfry_engine, " +
			pgtest.Role(t, url, "BYPASSRLS"),
		"may create roles":                       "LOGIN CREATEROLE IN ROLE belfry_api, belfry_engine",
		"lacks the rights of a server":           "LOGIN",
		"run: belfry migrate --server-role":      "LOGIN IN ROLE belfry_engine",
		"start the server with that role":        "LOGIN BYPASSRLS",
		"CREATE ROLE belfry_server LOGIN PASSWO": "LOGIN SUPERUSER",
	} {
		require.ErrorContains(t, openAs(t, pgtest.As(t, url, pgtest.Role(t, url, attributes))).CheckRole(ctx), want)
	}
	safe := pgtest.Role(t, url, "LOGIN IN ROLE belfry_api, belfry_engine")
	require.NoError(t, postgres.GrantServer(ctx, url, postgres.GrantParams{Role: safe}))
	require.NoError(t, openAs(t, pgtest.As(t, url, safe)).CheckRole(ctx))
}

// cluster creates a database with an owner and a login for nodes, as the guide does.
func cluster(t *testing.T) (asOwner, asServer, server string) {
	t.Helper()
	asOwner, url, owner := ownedBy(t, "LOGIN")
	execAs(t, url, `GRANT belfry_api, belfry_engine TO `+owner+` WITH ADMIN OPTION`)
	_, err := postgres.Migrate(t.Context(), asOwner, postgres.MigrateParams{})
	require.NoError(t, err)
	server = pgtest.Role(t, url, "LOGIN")
	require.NoError(t, postgres.GrantServer(t.Context(), asOwner, postgres.GrantParams{Role: server}))
	return asOwner, pgtest.As(t, url, server), server
}

func execAs(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// TestLoginsOfOtherClustersAreRefused: Belfry's roles belong to the whole PostgreSQL server, so the login of one
// database has their rights in another. It cannot connect to it, and a node does not start where it could.
func TestLoginsOfOtherClustersAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	asOwner, asServer, server := cluster(t)
	_, _, stranger := cluster(t)
	config, err := pgx.ParseConfig(asServer)
	require.NoError(t, err)
	database := config.Database
	asStranger := pgtest.As(t, asServer, stranger)
	_, err = pgx.Connect(ctx, asStranger)
	require.ErrorContains(t, err, "permission denied for database")
	store := openAs(t, asServer)
	require.NoError(t, store.CheckRole(ctx))

	// What it could do, and what a node says then.
	execAs(t, asOwner, `GRANT CONNECT ON DATABASE "`+database+`" TO PUBLIC`)
	execAs(t, asStranger, `SELECT secret FROM cluster_key`)
	err = store.CheckRole(ctx)
	require.ErrorContains(t, err, "everyone may connect to the database "+database)
	statements := `GRANT CONNECT ON DATABASE "` + database + `" TO "` + server + `"; ` +
		`REVOKE CONNECT ON DATABASE "` + database + `" FROM PUBLIC`
	require.ErrorContains(t, err, "as the owner of the database run: "+statements)

	// A login that may grant, and does not own the database, learns what the owner has to do.
	var open postgres.ConnectError
	require.ErrorAs(t, postgres.GrantServer(ctx, asServer, postgres.GrantParams{Role: server}), &open)
	require.ErrorContains(t, open, "as its owner run: GRANT CONNECT")
	execAs(t, asOwner, statements)
	require.NoError(t, store.CheckRole(ctx))
	_, err = pgx.Connect(ctx, asStranger)
	require.ErrorContains(t, err, "permission denied for database")

	// A second login for nodes of this cluster is granted by name, whoever else may connect.
	require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: stranger}))
	execAs(t, asStranger, `SELECT`)
	require.NoError(t, store.CheckRole(ctx))
}

// TestLoginsOfOtherClustersAreRefusedInGroups: the login of another cluster that may connect as a member of some group
// is refused as one that everyone's right lets in. A group that has Belfry's rights itself is one of nodes.
func TestLoginsOfOtherClustersAreRefusedInGroups(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	asOwner, asServer, server := cluster(t)
	_, _, stranger := cluster(t)
	config, err := pgx.ParseConfig(asServer)
	require.NoError(t, err)
	database := pgx.Identifier{config.Database}.Sanitize()
	url := pgtest.URL(t) // as a superuser, of the same PostgreSQL server
	programs := pgtest.Role(t, url, "NOLOGIN ROLE "+stranger)
	asStranger := pgtest.As(t, asServer, stranger)
	store := openAs(t, asServer)
	require.NoError(t, store.CheckRole(ctx))

	execAs(t, asOwner, `GRANT CONNECT ON DATABASE `+database+` TO `+programs)
	execAs(t, asStranger, `SELECT secret FROM cluster_key`)
	err = store.CheckRole(ctx)
	statements := `GRANT CONNECT ON DATABASE ` + database + ` TO "` + server + `"; ` +
		`REVOKE CONNECT ON DATABASE ` + database + ` FROM "` + programs + `"`
	require.ErrorContains(t, err, "members of "+programs+" may connect to the database "+config.Database+
		", and these logins have the rights of a Belfry server in it: "+stranger+
		"; as the owner of the database run: "+statements)

	// The login is one of this cluster: then it gets a grant of its own, as the message says.
	require.ErrorContains(t, err, "belfry migrate --server-role "+stranger)
	require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: stranger, Default: true}))
	require.Error(t, store.CheckRole(ctx), "the operator did not name it")
	require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: stranger}))
	require.NoError(t, store.CheckRole(ctx))

	execAs(t, asOwner, `REVOKE CONNECT ON DATABASE `+database+` FROM `+stranger)
	require.Error(t, store.CheckRole(ctx))
	execAs(t, asOwner, statements)
	require.NoError(t, store.CheckRole(ctx))

	// Nodes log in as members of one group, such as logins that live for a day.
	nodes := pgtest.Role(t, url, "NOLOGIN IN ROLE belfry_api, belfry_engine")
	require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: nodes}))
	today := pgtest.Role(t, url, "LOGIN IN ROLE "+nodes)
	require.NoError(t, openAs(t, pgtest.As(t, asServer, today)).CheckRole(ctx))
	require.NoError(t, store.CheckRole(ctx))

	// Belfry's own roles name no cluster.
	execAs(t, asOwner, `GRANT CONNECT ON DATABASE `+database+` TO belfry_api`)
	require.ErrorContains(t, store.CheckRole(ctx), "members of belfry_api may connect")
}

// TestOneFirstKey: of many concurrent calls, one creates the key.
func TestOneFirstKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pgtest.AsServer(t, pool))
	const many = 8
	made := make(chan string, many)
	for range many {
		go func() {
			secret, err := store.FirstKey(t.Context(), access.DefaultNamespace, 0)
			if err != nil {
				secret = err.Error()
			}
			made <- secret
		}()
	}
	var secrets []string
	for range many {
		if secret := <-made; secret != "" {
			secrets = append(secrets, secret)
		}
	}
	require.Len(t, secrets, 1)
	_, err := access.KeyHash(secrets[0])
	require.NoError(t, err)
}

// hostile creates, for each table, a temporary view of the same name that runs a function of the caller. It notices
// the role that it runs as.
const hostile = `
CREATE FUNCTION pg_temp.run_by() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'ran as %', current_user; RETURN true; END $$;
DO $$
DECLARE t record;
BEGIN
    FOR t IN SELECT c.relname, string_agg(format('NULL::%s AS %I', a.atttypid::regtype, a.attname), ', ') AS columns
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') GROUP BY c.relname LOOP
        EXECUTE format('CREATE TEMP VIEW %I AS SELECT %s FROM pg_temp.run_by() r WHERE r', t.relname, t.columns);
        EXECUTE format('GRANT SELECT ON pg_temp.%I TO PUBLIC', t.relname);
    END LOOP;
END $$`

// callable are calls of all functions that a server may call, with arguments that fit their types.
const callable = `
SELECT format('SELECT * FROM %I(%s)', p.proname, (SELECT string_agg(format('%L::%s', CASE a::regtype::text
           WHEN 'text' THEN $1 WHEN 'interval' THEN '30 days' WHEN 'uuid' THEN gen_random_uuid()::text
           WHEN 'integer' THEN '1' WHEN 'bigint' THEN '1' WHEN 'timestamp with time zone' THEN '2026-01-01'
           WHEN 'date' THEN '2026-01-01' WHEN 'boolean' THEN 'true' END, a::regtype), ', ' ORDER BY n)
       FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY u (a, n)))
FROM pg_proc p
WHERE p.pronamespace = 'public'::regnamespace AND p.prorettype <> 'trigger'::regtype
  AND p.proname LIKE 'belfry%' AND has_function_privilege('belfry_engine', p.oid, 'EXECUTE')`

// TestNoCodeOfAServerRunsAsTheOwner: functions with the owner's rights do not use temporary views of their caller, which
// would run as the owner.
func TestNoCodeOfAServerRunsAsTheOwner(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	asOwner, asServer, server := cluster(t)
	config, err := pgx.ParseConfig(asServer)
	require.NoError(t, err)
	execAs(t, asOwner, `GRANT TEMPORARY ON DATABASE "`+config.Database+`" TO `+server)
	require.NoError(t, openAs(t, asServer).CreateHistory(ctx, 1))
	var ran []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { ran = append(ran, n.Message) }
	conn, err := pgx.ConnectConfig(ctx, config)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	var day string
	require.NoError(t, conn.QueryRow(ctx, `SELECT min(relname) FROM pg_class WHERE relname ~ '^run_history_[0-9]{8}$'`).
		Scan(&day))
	rows, err := conn.Query(ctx, callable, day)
	require.NoError(t, err)
	calls, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(calls), 10)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(ctx)) }()
	_, err = tx.Exec(ctx, hostile)
	require.NoError(t, err)
	for _, call := range calls {
		one, err := tx.Begin(ctx)
		require.NoError(t, err)
		_, _ = one.Exec(ctx, call) // some fail, because tables are views now
		require.NoError(t, one.Rollback(ctx))
	}
	_, err = tx.Exec(ctx, `SELECT FROM namespace`)
	require.NoError(t, err)
	require.NotEmpty(t, ran, "a statement of the caller uses the views")
	for _, as := range ran {
		require.Equal(t, "ran as "+server, as)
	}
}

// TestANodeCreatesNothingInTheDatabase: GrantServer takes the rights to create from everyone, and a node does not start
// with one of them. The message says how to take it away.
func TestANodeCreatesNothingInTheDatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	asOwner, asServer, server := cluster(t)
	config, err := pgx.ParseConfig(asServer)
	require.NoError(t, err)
	database := pgx.Identifier{config.Database}.Sanitize()
	store := openAs(t, asServer)
	require.NoError(t, store.CheckRole(ctx), "after GrantServer")
	for _, right := range []string{"TEMPORARY ON DATABASE " + database, "CREATE ON SCHEMA public"} {
		for who, role := range map[string]string{"PUBLIC": "PUBLIC", "the login": server} {
			execAs(t, asOwner, `GRANT `+right+` TO `+role)
			err := store.CheckRole(ctx)
			require.ErrorContains(t, err, "may create temporary tables, or objects in the schema public", "%s: %s", who, right)
			_, statements, _ := strings.Cut(err.Error(), " run: ")
			execAs(t, asOwner, statements)
			require.NoError(t, store.CheckRole(ctx))
		}
		execAs(t, asOwner, `GRANT `+right+` TO PUBLIC`)
		var open postgres.ConnectError
		require.ErrorAs(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: server, Default: true}), &open)
		require.ErrorContains(t, open, "everyone may create")
		require.NoError(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: server}))
		require.NoError(t, store.CheckRole(ctx))
	}
	// The schema of an old server that was upgraded is a superuser's.
	super, err := pgx.ParseConfig(pgtest.EmptyURL(t))
	require.NoError(t, err)
	execAs(t, pgtest.As(t, asOwner, super.User),
		`ALTER SCHEMA public OWNER TO CURRENT_USER; GRANT CREATE ON SCHEMA public TO PUBLIC`)
	var open postgres.ConnectError
	require.ErrorAs(t, postgres.GrantServer(ctx, asOwner, postgres.GrantParams{Role: server}), &open)
	require.ErrorContains(t, open, "as the owner of the database and the schema run: REVOKE TEMPORARY")
}
