package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// Row-level security does not restrict a superuser or a role that bypasses it, and the owner of the tables could switch
// it off: one statement with a forgotten condition would then show one namespace to another. This also counts roles that
// the role can become, by SET ROLE or, if it may create roles, by a GRANT.
const describeRole = `
SELECT current_user, bool_or(r.rolsuper), bool_or(r.rolbypassrls), bool_or(r.oid = c.relowner),
       bool_or(r.rolcreaterole),
       pg_has_role(current_user, 'belfry_engine', 'USAGE') AND pg_has_role(current_user, 'belfry_api', 'MEMBER')
FROM pg_roles r, pg_class c
WHERE pg_has_role(current_user, r.oid, 'MEMBER') AND c.oid = 'job'::regclass`

// CheckRole returns an error unless the role of the store is safe: it has the rights that it needs, and is neither a
// superuser nor the owner of the tables, nor able to become one.
func (a *Admin) CheckRole(ctx context.Context) error {
	var name string
	var super, bypass, owner, creates, member bool
	if err := a.db.QueryRow(ctx, describeRole).Scan(&name, &super, &bypass, &owner, &creates, &member); err != nil {
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

// Belfry's roles belong to the whole PostgreSQL server, so the login of another Belfry there has their rights in this
// database too. By default PostgreSQL lets every login connect to every database. This returns the logins other than $1
// that no grant names, and how many logins there are.
const describeOthers = `
WITH login AS (
    SELECT r.rolname,
           EXISTS (SELECT FROM aclexplode(d.datacl) WHERE grantee = r.oid AND privilege_type = 'CONNECT') AS named
    FROM pg_roles r, pg_database d, pg_class c
    WHERE d.datname = current_database() AND c.oid = 'job'::regclass
      AND has_database_privilege('public', d.oid, 'CONNECT')
      AND r.rolcanlogin AND NOT r.rolsuper
      AND (pg_has_role(r.oid, 'belfry_engine', 'MEMBER') OR pg_has_role(r.oid, 'belfry_api', 'MEMBER'))
      AND NOT pg_has_role(r.oid, d.datdba, 'MEMBER') AND NOT pg_has_role(r.oid, c.relowner, 'MEMBER'))
SELECT current_database(),
       ARRAY(SELECT rolname FROM login WHERE NOT named AND rolname <> $1 ORDER BY rolname LIMIT 5),
       (SELECT count(*) FROM login)`

const openToOthers = "everyone may connect to the database %s, and these logins have the rights of a Belfry server in it: %s"

// checkOthers returns an error if logins of other Belfry databases can enter this one.
func (a *Admin) checkOthers(ctx context.Context, role string) error {
	var database string
	var others []string
	var logins int
	if err := a.db.QueryRow(ctx, describeOthers, role).Scan(&database, &others, &logins); err != nil {
		return fmt.Errorf("check the logins of the database: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf(
		openToOthers+"; as the owner of the database run: %s. If nodes of this cluster use one of them, also run:"+
			" belfry migrate --server-role %s",
		database, strings.Join(others, ", "), closeStatements(database, role), others[0],
	)
}

// closeStatements returns the statements that let only these roles, the owner and superusers connect to a database.
func closeStatements(database string, roles ...string) string {
	where := pgx.Identifier{database}.Sanitize()
	for i, r := range roles {
		roles[i] = pgx.Identifier{r}.Sanitize()
	}
	return `GRANT CONNECT ON DATABASE ` + where + ` TO ` + strings.Join(roles, ", ") +
		`; REVOKE CONNECT ON DATABASE ` + where + ` FROM PUBLIC`
}

const describeConnect = `
SELECT d.datname, o.rolname, pg_has_role(current_user, d.datdba, 'USAGE'),
       has_database_privilege('public', d.oid, 'CONNECT'), has_database_privilege($1, d.oid, 'CONNECT')
FROM pg_database d, pg_class c JOIN pg_roles o ON o.oid = c.relowner
WHERE d.datname = current_database() AND c.oid = 'job'::regclass`

// ConnectError means that GrantServer did not change who may connect to the database. It says what to run.
type ConnectError string

func (e ConnectError) Error() string { return string(e) }

// closeDatabase lets a server's login and the owner of the tables connect to the database, and no other login. A role
// that the operator did not name may be that of another cluster: it lets that in only if the database is new.
func closeDatabase(ctx context.Context, conn *pgx.Conn, p GrantParams) error {
	var database, owner string
	var owned, open, may bool
	err := conn.QueryRow(ctx, describeConnect, p.Role).Scan(&database, &owner, &owned, &open, &may)
	switch sql := closeStatements(database, p.Role, owner); {
	case err != nil:
		return err
	case !open && may:
		return nil
	case p.Default && !open:
		return ConnectError(fmt.Sprintf("%s may not connect to the database %s; if nodes of this cluster log in as it,"+
			" run: belfry migrate --server-role %s", p.Role, database, p.Role))
	case p.Default && !p.New:
		return checkOpen(ctx, conn, owner)
	case !owned:
		return ConnectError(fmt.Sprintf("this user does not own the database %s, and so did not change who may connect to"+
			" it; as its owner run: %s", database, sql))
	default:
		if _, err = conn.Exec(ctx, sql); err == nil && open && p.Revoked != nil {
			p.Revoked(pgx.Identifier{database}.Sanitize())
		}
		return err
	}
}

// checkOpen returns a ConnectError if everyone may connect, and there are logins of more than one cluster, or several of
// this one. It cannot know which.
func checkOpen(ctx context.Context, conn *pgx.Conn, owner string) error {
	var database string
	var others []string
	var logins int
	err := conn.QueryRow(ctx, describeOthers, "").Scan(&database, &others, &logins)
	if err != nil || len(others) == 0 || logins == 1 {
		return err
	}
	return ConnectError(fmt.Sprintf(
		openToOthers+"; to let only the nodes of this cluster connect, run for each of their logins: belfry migrate"+
			" --server-role LOGIN; or as the owner of the database run: %s",
		database, strings.Join(others, ", "), closeStatements(database, "LOGIN", owner),
	))
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
	conn, err := pool.Connect(ctx, url)
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
	case Code(err) == "42501": // insufficient_privilege
		return fmt.Errorf(
			"this user may not grant Belfry's roles to %s; as a superuser run in this database: %s (%w)", role, sql,
			err,
		)
	case err != nil:
		return fmt.Errorf("grant to %s: %w", role, err)
	}
	return nil
}
