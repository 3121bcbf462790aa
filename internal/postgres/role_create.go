package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CreateServer makes a login role for servers, or gives the one that is there a
// new password. GrantServer gives it its rights.
func CreateServer(ctx context.Context, url, role, password string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("create role %s: %w", role, err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is left to be lost
	// format quotes both: a statement of this kind takes no parameters.
	var sql string
	err = conn.QueryRow(ctx, `SELECT format('%s ROLE %I LOGIN PASSWORD %L', CASE WHEN count(*) > 0 THEN 'ALTER' ELSE 'CREATE' END, $1::text, $2::text)
FROM pg_roles WHERE rolname = $1`, role, password).Scan(&sql)
	if err == nil {
		_, err = conn.Exec(ctx, sql)
	}
	if err != nil {
		return fmt.Errorf("create role %s: %w", role, err)
	}
	return nil
}
