package app

import (
	"context"

	"github.com/belfry-dev/belfry/internal/postgres"
)

// MakeServerRole creates a login role with the rights that a node needs. If the role exists, it gets the
// new password. The URL is that of a superuser.
func MakeServerRole(ctx context.Context, url, role, password string) error {
	if err := postgres.CreateServer(ctx, url, role, password); err != nil {
		return err
	}
	return Grant(ctx, url, role)
}
