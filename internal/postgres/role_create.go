package postgres

import (
	"context"
	"fmt"

	"github.com/belfry-dev/belfry/internal/store"
)

// CreateServer creates a login role for servers, or gives an existing one a new password. GrantServer grants its
// rights.
func CreateServer(ctx context.Context, url, role, password string) error {
	conn, err := store.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("create role %s: %w", role, err)
	}
	defer func() { _ = conn.Close(ctx) }() // there is nothing left to lose
	// CREATE ROLE takes no parameters, so format quotes the name and the password.
	var sql string
	err = conn.QueryRow(ctx, `
SELECT format('%s ROLE %I LOGIN PASSWORD %L', CASE WHEN count(*) > 0 THEN 'ALTER' ELSE 'CREATE' END,
              $1::text, $2::text)
FROM pg_roles
WHERE rolname = $1`, role, password).
		Scan(&sql)
	if err == nil {
		_, err = conn.Exec(ctx, sql)
	}
	if err != nil {
		return fmt.Errorf("create role %s: %w", role, err)
	}
	return nil
}
