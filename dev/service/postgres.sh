# shellcheck shell=bash
# PostgreSQL of Debian 12, with a cluster of its own (not the one Debian's scripts manage).
. "$DEV_DIR/service/pg.sh"

PG_BIN=/usr/lib/postgresql/${POSTGRES_PACKAGE#postgresql-}/bin
PROCESSES=(postgres)

installed() { [[ -x $PG_BIN/postgres ]]; }
install() { apt_install "$POSTGRES_PACKAGE"; }
version() { pg_version; }
url() { pg_url "$POSTGRES_PORT"; }
environment() { echo "BELFRY_TEST_DATABASE_URL=$(url)"; }
ready() { pg_ready "$RUN_DIR/data/main" "$POSTGRES_PORT"; }

start() {
  port_free "$POSTGRES_PORT"
  pg_init "$RUN_DIR/data/main"
  pg_spawn postgres "$RUN_DIR/data/main" "$POSTGRES_PORT" "$POSTGRES_SHARED_BUFFERS"
  wait_until 60 postgres ready
}

stop() { stop_process postgres INT 20; } # INT: a fast shutdown, which does not wait for clients
