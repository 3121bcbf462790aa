package app

import (
	"context"

	"github.com/belfry-dev/belfry/internal/postgres"
)

// MakeServerRole makes a login role with what a node needs, or gives the one that
// is there a new password. The URL is that of a superuser.
func MakeServerRole(ctx context.Context, url, role, password string) error {
	if err := postgres.CreateServer(ctx, url, role, password); err != nil {
		return err
	}
	return Grant(ctx, url, role)
}
