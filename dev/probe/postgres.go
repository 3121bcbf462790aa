package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// maintenanceDB keeps the probe's tables out of the database that Belfry migrates.
const maintenanceDB = "postgres"

func checkPostgres(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	return writeAndRead(ctx, config, nil)
}

// checkPgBouncer uses no named prepared statement, because the next transaction may have another connection.
func checkPgBouncer(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if err := writeAndRead(ctx, config, nil); err != nil {
		return err
	}
	return requireTransactionMode(ctx, config)
}

// requireTransactionMode asks PgBouncer's console, which supports only the simple protocol.
func requireTransactionMode(ctx context.Context, config *pgx.ConnConfig) error {
	config = config.Copy()
	config.Database = "pgbouncer"
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, "SHOW CONFIG").ReadAll()
	if err != nil {
		return err
	}
	for _, row := range results[0].Rows {
		if string(row[0]) == "pool_mode" && string(row[1]) != "transaction" {
			return fmt.Errorf("pool_mode is %s", row[1])
		}
	}
	return nil
}

// checkPostgresHA writes where writes are accepted and waits for the row on the other two servers.
func checkPostgresHA(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	return writeAndRead(ctx, config, func(primary *pgx.Conn, table string) error {
		hosts := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
		for _, f := range config.Fallbacks {
			hosts = append(hosts, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
		}
		for _, host := range hosts {
			if host == primary.PgConn().Conn().RemoteAddr().String() {
				continue
			}
			if err := readOnStandby(ctx, host, table); err != nil {
				return fmt.Errorf("standby %s: %w", host, err)
			}
		}
		return nil
	})
}

func readOnStandby(ctx context.Context, host, table string) error {
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://belfry@%s/%s?sslmode=disable", host, maintenanceDB))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var standby bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	if !standby {
		return fmt.Errorf("it is no standby (promoted?)")
	}
	// The commit waited until one standby had written the record to disk; applying it takes a moment longer.
	for {
		err := readRow(ctx, conn, table)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// writeAndRead commits a row in its own table and reads it over a second connection.
func writeAndRead(ctx context.Context, config *pgx.ConnConfig, then func(conn *pgx.Conn, table string) error) error {
	config = config.Copy()
	config.Database = maintenanceDB
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	table := token()
	if _, err := conn.Exec(ctx, "CREATE TABLE "+table+" (value text NOT NULL)"); err != nil {
		return err
	}
	defer conn.Exec(ctx, "DROP TABLE "+table)
	write := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", table)
		return err
	}
	if err := pgx.BeginFunc(ctx, conn, write); err != nil {
		return err
	}
	reader, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer reader.Close(ctx)
	if err := readRow(ctx, reader, table); err != nil {
		return err
	}
	if then == nil {
		return nil
	}
	return then(conn, table)
}

func readRow(ctx context.Context, conn *pgx.Conn, table string) error {
	var got string
	if err := conn.QueryRow(ctx, "SELECT value FROM "+table).Scan(&got); err != nil {
		return err
	}
	if got != table {
		return fmt.Errorf("wrote %q, read %q", table, got)
	}
	return nil
}
