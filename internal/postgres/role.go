package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/store"
)

// Row-level security does not restrict a superuser or a role that bypasses it, and the owner of the tables could switch
// it off: one statement with a forgotten condition would then show one namespace to another. This also counts roles that
// the role can become, by SET ROLE or, if it may create roles, by a GRANT.
const describeRole = `
SELECT current_user, bool_or(r.rolsuper), bool_or(r.rolbypassrls), bool_or(r.oid = c.relowner),
       bool_or(r.rolcreaterole),
       pg_has_role(current_user, 'belfry_engine', 'USAGE') AND pg_has_role(current_user, 'belfry_api', 'MEMBER'),
       has_database_privilege(current_database(), 'TEMPORARY') OR has_schema_privilege(current_schema(), 'CREATE'),
       current_database(), current_schema()
FROM pg_roles r, pg_class c
WHERE pg_has_role(current_user, r.oid, 'MEMBER') AND c.oid = 'job'::regclass`

// CheckRole returns an error unless the role of the store is safe: it has the rights that it needs, and is neither a
// superuser nor the owner of the tables, nor able to become one, and creates nothing that the owner's functions may find.
func (a *Admin) CheckRole(ctx context.Context) error {
	var name, database, schema string
	var super, bypass, owner, creates, member, adds bool
	err := a.db.QueryRow(ctx, describeRole).
		Scan(&name, &super, &bypass, &owner, &creates, &member, &adds, &database, &schema)
	if err != nil {
		return fmt.Errorf("check the database role: %w", err)
	}
	var why string
	switch {
	case super:
		why = "is a superuser, or can become one"
	case bypass:
		why = "bypasses row-level security, or can become a role that does"
	case owner:
		why = "owns the tables, or can become their owner"
	case creates:
		why = "may create roles, and so make itself the tables' owner"
	case !member:
		return fmt.Errorf(
			"the database role %s lacks the rights of a server; as the owner run: belfry migrate --server-role %s",
			name, name,
		)
	case adds:
		return addError("the database role "+name, database, schema, "", name)
	default:
		return a.checkOthers(ctx, name)
	}
	return fmt.Errorf(
		"the database role %s %s, so nothing would keep namespaces apart; as the owner run:"+
			" CREATE ROLE belfry_server LOGIN PASSWORD '…', then belfry migrate --server-role belfry_server,"+
			" and start the server with that role",
		name, why,
	)
}

// byName holds for a grant of CONNECT that the operator made for nodes of this database: to a login, or to a group that
// has Belfry's rights itself. Belfry's own roles name no database: the logins of all clusters are their members.
const byName = `a.privilege_type = 'CONNECT' AND a.grantee NOT IN (0, 'belfry_engine'::regrole, 'belfry_api'::regrole)
           AND (pg_has_role(a.grantee, 'belfry_engine', 'MEMBER') OR pg_has_role(a.grantee, 'belfry_api', 'MEMBER'))`

// Belfry's roles belong to the whole PostgreSQL server, so the login of another Belfry there has their rights in this
// database too. By default PostgreSQL lets every login connect to every database. This returns the logins other than $1
// that may connect and that no grant names, the grants that let them in, and how many logins may connect.
const describeOthers = `
WITH entry AS (
    SELECT r.rolname, a.grantee, ` + byName + ` AS named
    FROM pg_database d CROSS JOIN aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a, pg_roles r, pg_class c
    WHERE d.datname = current_database() AND c.oid = 'job'::regclass
      AND a.privilege_type = 'CONNECT' AND (a.grantee = 0 OR pg_has_role(r.oid, a.grantee, 'USAGE'))
      AND r.rolcanlogin AND NOT r.rolsuper
      AND (pg_has_role(r.oid, 'belfry_engine', 'MEMBER') OR pg_has_role(r.oid, 'belfry_api', 'MEMBER'))
      AND NOT pg_has_role(r.oid, d.datdba, 'MEMBER') AND NOT pg_has_role(r.oid, c.relowner, 'MEMBER')),
other AS (SELECT rolname FROM entry WHERE rolname <> $1 GROUP BY rolname HAVING NOT bool_or(named))
SELECT current_database(),
       ARRAY(SELECT rolname FROM other ORDER BY rolname LIMIT 5),
       ARRAY(SELECT DISTINCT CASE grantee WHEN 0 THEN '' ELSE pg_get_userbyid(grantee) END
             FROM entry JOIN other USING (rolname) ORDER BY 1 LIMIT 5),
       (SELECT count(DISTINCT rolname) FROM entry)`

// openLogins are the logins of other Belfry databases that may connect to this one.
type openLogins struct {
	database string
	others   []string // some of the logins
	grantees []string // some of the roles through which they may connect; "": PUBLIC
	logins   int      // how many logins may connect
}

func findOpenLogins(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, role string,
) (o openLogins, err error) {
	err = db.QueryRow(ctx, describeOthers, role).Scan(&o.database, &o.others, &o.grantees, &o.logins)
	return o, err
}

func (o *openLogins) String() string {
	who := "everyone"
	if !slices.Contains(o.grantees, "") {
		who = "members of " + strings.Join(o.grantees, ", ")
	}
	return fmt.Sprintf("%s may connect to the database %s, and these logins have the rights of a Belfry server in it: %s",
		who, o.database, strings.Join(o.others, ", "))
}

// checkOthers returns an error if logins of other Belfry databases can enter this one.
func (a *Admin) checkOthers(ctx context.Context, role string) error {
	o, err := findOpenLogins(ctx, a.db, role)
	switch {
	case err != nil:
		return fmt.Errorf("check the logins of the database: %w", err)
	case len(o.others) == 0:
		return nil
	}
	return fmt.Errorf("%s; as the owner of the database run: %s. If nodes of this cluster use one of them, also run:"+
		" belfry migrate --server-role %s", &o, closeStatements(o.database, o.grantees, role), o.others[0])
}

// closeStatements returns the statements that let these roles connect to a database, and the grantees no longer.
func closeStatements(database string, grantees []string, roles ...string) string {
	where := pgx.Identifier{database}.Sanitize()
	return `GRANT CONNECT ON DATABASE ` + where + ` TO ` + quoted(roles) +
		`; REVOKE CONNECT ON DATABASE ` + where + ` FROM ` + quoted(grantees)
}

// addStatements returns the statements that keep roles from creating temporary tables, and anything in Belfry's schema.
// Nodes need neither, and functions with the rights of the owner must not find what a node created.
func addStatements(database, schema string, roles ...string) string {
	from := ` FROM ` + quoted(roles)
	return `REVOKE TEMPORARY ON DATABASE ` + quoted([]string{database}) + from +
		`; REVOKE CREATE ON SCHEMA ` + quoted([]string{schema}) + from
}

func addError(who, database, schema string, roles ...string) ConnectError {
	return ConnectError(fmt.Sprintf("%s may create temporary tables, or objects in the schema %s, which a node must not;"+
		" as the owner of the database and the schema run: %s", who, schema, addStatements(database, schema, roles...)))
}

// everyone is PUBLIC as a grantee.
var everyone = []string{""}

func quoted(roles []string) string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = "PUBLIC"
		if r != "" {
			out[i] = pgx.Identifier{r}.Sanitize()
		}
	}
	return strings.Join(out, ", ")
}

const describeConnect = `
SELECT d.datname, n.nspname, o.rolname, pg_has_role(current_user, d.datdba, 'USAGE'),
       has_database_privilege('public', d.oid, 'CONNECT'),
       has_database_privilege('public', d.oid, 'TEMPORARY') OR has_schema_privilege('public', c.relnamespace, 'CREATE'),
       has_database_privilege($1, d.oid, 'CONNECT'),
       EXISTS (SELECT FROM aclexplode(d.datacl) a WHERE pg_has_role($1, a.grantee, 'USAGE') AND ` + byName + `)
FROM pg_database d, pg_class c JOIN pg_roles o ON o.oid = c.relowner JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE d.datname = current_database() AND c.oid = 'job'::regclass`

// ConnectError means that GrantServer did not change who may connect to the database, or create something in it. It says
// what to run.
type ConnectError string

func (e ConnectError) Error() string { return string(e) }

// closeDatabase lets a server's login and the owner of the tables connect to the database, and no other login, and only
// the owner create anything. A role that the operator did not name may be that of another cluster: it lets that in only
// if the database is new.
func closeDatabase(ctx context.Context, conn *pgx.Conn, p GrantParams) error {
	var database, schema, owner string
	var owned, open, adds, may, named bool
	read := func() error {
		return conn.QueryRow(ctx, describeConnect, p.Role).
			Scan(&database, &schema, &owner, &owned, &open, &adds, &may, &named)
	}
	err := read()
	switch sql := closeStatements(database, everyone, p.Role, owner) + "; " + addStatements(database, schema, ""); {
	case err != nil:
		return err
	case !open && !adds && may && (named || p.Default):
		return nil
	case p.Default && !open && !may:
		return ConnectError(fmt.Sprintf("%s may not connect to the database %s; if nodes of this cluster log in as it,"+
			" run: belfry migrate --server-role %s", p.Role, database, p.Role))
	case p.Default && !p.New:
		err = checkOpen(ctx, conn, owner)
	case !owned:
		return ConnectError(fmt.Sprintf("this user does not own the database %s, and so did not change who may connect to"+
			" it; as its owner run: %s", database, sql))
	default:
		if _, err = conn.Exec(ctx, sql); err == nil && open && p.Revoked != nil {
			p.Revoked(pgx.Identifier{database}.Sanitize())
		}
		if err == nil {
			err = read() // PostgreSQL only warns if the schema belongs to someone else
		}
	}
	if err == nil && adds {
		return addError("everyone", database, schema, "")
	}
	return err
}

// checkOpen returns a ConnectError if everyone may connect, and there are logins of more than one cluster, or several of
// this one. It cannot know which.
func checkOpen(ctx context.Context, conn *pgx.Conn, owner string) error {
	o, err := findOpenLogins(ctx, conn, "")
	if err != nil || len(o.others) == 0 || o.logins == 1 {
		return err
	}
	return ConnectError(fmt.Sprintf("%s; to let only the nodes of this cluster connect, run for each of their logins:"+
		" belfry migrate --server-role LOGIN; or as the owner of the database run: %s",
		&o, closeStatements(o.database, everyone, "LOGIN", owner)))
}

// ErrNoRole means that the database role does not exist.
var ErrNoRole = errors.New("no such database role")

const describeServer = `
SELECT count(*) > 0,
       coalesce(bool_and(
           pg_has_role(rolname, 'belfry_engine', 'USAGE') AND pg_has_role(rolname, 'belfry_api', 'MEMBER')
           AND NOT rolsuper AND has_schema_privilege(rolname, current_schema(), 'USAGE')
           AND has_schema_privilege('belfry_api', current_schema(), 'USAGE')), false),
       current_schema()
FROM pg_roles
WHERE rolname = $1`

// GrantParams says which login gets the rights of a server.
type GrantParams struct {
	Role    string
	Default bool // the operator did not name the role
	New     bool // no node has used the database yet
	// Revoked is called if PUBLIC could connect and no longer can, with the quoted name of the database; may be nil.
	Revoked func(database string)
}

// GrantServer grants a login role the rights of a server. It takes from all other logins the right to connect, if the
// operator named the role or the database is new. The caller must be allowed to grant Belfry's roles. If the role
// cannot connect after that, or too many can, GrantServer returns a ConnectError.
func GrantServer(ctx context.Context, url string, p GrantParams) error {
	conn, err := store.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("grant to %s: %w", p.Role, err)
	}
	defer func() { _ = conn.Close(ctx) }() // there is nothing left to lose
	var exists, granted bool
	var schema string
	err = conn.QueryRow(ctx, describeServer, p.Role).Scan(&exists, &granted, &schema)
	switch {
	case err != nil:
		return fmt.Errorf("grant to %s: %w", p.Role, err)
	case !exists:
		return fmt.Errorf("%w: %s; nodes log in as one that does not own the tables: CREATE ROLE %s LOGIN PASSWORD '…',"+
			" then run: belfry migrate --server-role %s", ErrNoRole, p.Role, p.Role, p.Role)
	case !granted:
		if err := grantServer(ctx, conn, p.Role, schema); err != nil {
			return err
		}
	}
	if err := closeDatabase(ctx, conn, p); err != nil {
		return fmt.Errorf("let %s connect: %w", p.Role, err)
	}
	return nil
}

func grantServer(ctx context.Context, conn *pgx.Conn, role, schema string) error {
	who, where := pgx.Identifier{role}.Sanitize(), pgx.Identifier{schema}.Sanitize()
	sql := strings.Join([]string{
		`GRANT USAGE ON SCHEMA ` + where + ` TO ` + who + `, belfry_api, belfry_engine`,
		`GRANT belfry_engine, belfry_api TO ` + who,
	}, "; ")
	_, err := conn.Exec(ctx, sql)
	switch {
	case store.Code(err) == "42501": // insufficient_privilege
		return fmt.Errorf(
			"this user may not grant Belfry's roles to %s; as a superuser run in this database: %s (%w)", role, sql,
			err,
		)
	case err != nil:
		return fmt.Errorf("grant to %s: %w", role, err)
	}
	return nil
}
