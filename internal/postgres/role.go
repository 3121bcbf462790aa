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
		return nil
	}
	return fmt.Errorf(
		"the database role %s %s, so nothing would keep namespaces apart; as the owner run:"+
			" CREATE ROLE belfry_server LOGIN PASSWORD '…', then belfry migrate --server-role belfry_server,"+
			" and start the server with that role",
		name, why,
	)
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

// GrantServer grants a login role the rights of a server. The caller must own the database and be allowed to grant
// Belfry's roles.
func GrantServer(ctx context.Context, url, role string) error {
	conn, err := pool.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("grant to %s: %w", role, err)
	}
	defer func() { _ = conn.Close(ctx) }() // there is nothing left to lose
	var exists, granted bool
	var schema string
	err = conn.QueryRow(ctx, describeServer, role).Scan(&exists, &granted, &schema)
	switch {
	case err != nil:
		return fmt.Errorf("grant to %s: %w", role, err)
	case !exists:
		return fmt.Errorf("%w: %s", ErrNoRole, role)
	case granted:
		return nil
	}
	who, where := pgx.Identifier{role}.Sanitize(), pgx.Identifier{schema}.Sanitize()
	sql := strings.Join([]string{
		`GRANT USAGE ON SCHEMA ` + where + ` TO ` + who + `, belfry_api, belfry_engine`,
		`GRANT belfry_engine, belfry_api TO ` + who,
	}, "; ")
	_, err = conn.Exec(ctx, sql)
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
