package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// table is a table as the catalogue describes it.
type table struct {
	Name        string
	Comment     string
	Partitioned string // the partition key; empty: not partitioned
	Unlogged    bool
	Options     string // storage parameters
	EngineMay   string // rights of belfry_engine
	APIMay      string // rights of belfry_api
	APISees     string // the row-level security policies of belfry_api, with an empty line between; empty: no rows
	Secured     bool   // row-level security is forced
	Columns     []column
	Indexes     []index
}

type column struct {
	Name    string
	Type    string
	Null    bool
	Default string // or the expression of a generated column
	Kind    string // "default", "generated", "identity" or ""
	Comment string
}

type index struct {
	Name       string
	Definition string
	Comment    string
}

// Tables in the order in which the migrations create them, without partitions and the tables of the migration tool.
const selectTables = `
SELECT c.oid, c.relname, coalesce(obj_description(c.oid, 'pg_class'), ''), coalesce(pg_get_partkeydef(c.oid), ''),
       c.relpersistence = 'u', coalesce(array_to_string(c.reloptions, ', '), ''),
       c.relrowsecurity AND c.relforcerowsecurity,
       coalesce((SELECT string_agg(qual, E'\n\n' ORDER BY policyname) FROM pg_policies
                 WHERE schemaname = 'public' AND tablename = c.relname AND 'belfry_api' = ANY (roles)), '')
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND NOT starts_with(c.relname, 'belfry_migration')
ORDER BY c.oid`

const selectRights = `
SELECT coalesce(string_agg(
    lower(privilege) || CASE WHEN has_table_privilege($2::text, $1::oid, privilege) THEN '' ELSE ' of some columns' END,
    ', ' ORDER BY n), '')
FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY AS p (privilege, n)
WHERE has_table_privilege($2::text, $1::oid, privilege)
   OR privilege <> 'DELETE' AND has_any_column_privilege($2::text, $1::oid, privilege)`

const selectColumns = `
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       CASE WHEN a.attidentity <> '' THEN 'identity' WHEN a.attgenerated <> '' THEN 'generated'
            WHEN d.adbin IS NOT NULL THEN 'default' ELSE '' END,
       coalesce(col_description(a.attrelid, a.attnum), '')
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

const selectIndexes = `
SELECT c.relname,
       CASE WHEN i.indisprimary THEN 'primary key ' WHEN i.indisunique THEN 'unique ' ELSE '' END
           || regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', ''),
       coalesce(obj_description(c.oid, 'pg_class'), '')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1
ORDER BY i.indisprimary DESC, i.indisunique DESC, c.relname`

// readCatalog reads the tables of a migrated database.
func readCatalog(ctx context.Context, conn *pgx.Conn) ([]table, error) {
	rows, err := conn.Query(ctx, selectTables)
	if err != nil {
		return nil, err
	}
	var tables []table
	var oids []uint32
	var oid uint32
	var t table
	_, err = pgx.ForEachRow(rows, []any{
		&oid, &t.Name, &t.Comment, &t.Partitioned, &t.Unlogged, &t.Options, &t.Secured, &t.APISees,
	}, func() error {
		tables, oids = append(tables, t), append(oids, oid)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range tables {
		if err := tables[i].read(ctx, conn, oids[i]); err != nil {
			return nil, fmt.Errorf("table %s: %w", tables[i].Name, err)
		}
	}
	return tables, nil
}

// read fills in what other queries know.
func (t *table) read(ctx context.Context, conn *pgx.Conn, oid uint32) error {
	for role, into := range map[string]*string{"belfry_engine": &t.EngineMay, "belfry_api": &t.APIMay} {
		if err := conn.QueryRow(ctx, selectRights, oid, role).Scan(into); err != nil {
			return err
		}
	}
	rows, err := conn.Query(ctx, selectColumns, oid)
	if err != nil {
		return err
	}
	if t.Columns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[column]); err != nil {
		return err
	}
	if rows, err = conn.Query(ctx, selectIndexes, oid); err != nil {
		return err
	}
	t.Indexes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	return err
}
