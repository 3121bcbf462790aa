# shellcheck shell=bash
# PostgreSQL of Debian 12 with its data in memory. What tests durability uses `postgres`.
. "$DEV_DIR/service/pg.sh"

PG_BIN=/usr/lib/postgresql/${POSTGRES_PACKAGE#postgresql-}/bin
PROCESSES=(postgres-ram)

installed() { [[ -x $PG_BIN/postgres ]]; }
install() { apt_install "$POSTGRES_PACKAGE"; }
version() { pg_version; }
url() { pg_url "$POSTGRES_RAM_PORT"; }
environment() { echo "BELFRY_TEST_DATABASE_URL=$(url)"; }
ready() { pg_ready "$RAM_DIR/main" "$POSTGRES_RAM_PORT"; }
start() { pg_start_in_memory postgres-ram "$POSTGRES_RAM_PORT"; }
stop() { pg_stop_in_memory postgres-ram; }
