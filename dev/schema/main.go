// Command schema prints the reference page of the database schema.
//
// It applies the migrations to a scratch database on the server that BELFRY_TEST_DATABASE_URL names, and reads the
// catalogue: what the page says is what PostgreSQL knows. The prose comes from the COMMENT ON statements of the
// migrations.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/postgres"
)

const variable = "BELFRY_TEST_DATABASE_URL"

// timeout bounds the whole command.
const timeout = 2 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	text, err := page(ctx, os.Getenv(variable))
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

// page returns the reference page, read from a scratch database.
func page(ctx context.Context, address string) (text string, err error) {
	if address == "" {
		return "", errors.New(variable + ` is not set; run: eval "$(dev/services env postgres-ram)"`)
	}
	server, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", fmt.Errorf("connect to the database server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close(ctx)) }()
	name, err := createScratch(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, exec(ctx, server, `DROP DATABASE `+name+` WITH (FORCE)`)) }()

	scratch, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", variable, err)
	}
	scratch.Path = "/" + name
	if _, err := postgres.Migrate(ctx, scratch.String(), postgres.MigrateParams{}); err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, scratch.String())
	if err != nil {
		return "", fmt.Errorf("connect to the scratch database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	tables, err := readCatalog(ctx, conn)
	if err != nil {
		return "", fmt.Errorf("read the catalogue: %w", err)
	}
	return render(tables)
}

// createScratch creates a database under a name that pgtest removes later, should this process be killed.
func createScratch(ctx context.Context, server *pgx.Conn) (name string, err error) {
	const form = `SELECT 'belfry_test_' || extract(epoch FROM now())::bigint || '_' || $1 || '_schema'`
	if err := server.QueryRow(ctx, form, strings.ToLower(rand.Text()[:8])).Scan(&name); err != nil {
		return "", fmt.Errorf("name the scratch database: %w", err)
	}
	return name, exec(ctx, server,
		`CREATE DATABASE `+name+` TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C'`)
}

func exec(ctx context.Context, conn *pgx.Conn, sql string) error {
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
