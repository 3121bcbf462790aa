# shellcheck shell=bash
# PgBouncer in transaction mode in front of the service `postgres`.
. "$DEV_DIR/service/pg.sh"

PGBOUNCER=/usr/sbin/pgbouncer # a normal user's PATH may lack it
PROCESSES=(pgbouncer)

installed() { [[ -x $PGBOUNCER && -x /usr/bin/psql ]]; }
install() { apt_install "$PGBOUNCER_PACKAGE" postgresql-client; }
version() { "$PGBOUNCER" --version | awk 'NR == 1 {print $2}'; }
url() { pg_url "$PGBOUNCER_PORT"; }
environment() { echo "BELFRY_TEST_PGBOUNCER_URL=$(url)"; }
ready() { /usr/bin/psql -XAtq -w -h "$HOST" -p "$PGBOUNCER_PORT" -U belfry -d belfry -c 'SELECT 1'; }

start() {
  local data=$RUN_DIR/data
  port_free "$PGBOUNCER_PORT"
  echo '"belfry" ""' >"$data/users.txt"
  cat >"$data/pgbouncer.ini" <<EOF
[databases]
* = host=$HOST port=$POSTGRES_PORT

[pgbouncer]
listen_addr = $HOST
listen_port = $PGBOUNCER_PORT
unix_socket_dir =
auth_type = trust
auth_file = $data/users.txt
admin_users = belfry
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 50
; a restarted postgres is found again after a second, not after 15
server_login_retry = 1
EOF
  spawn pgbouncer "$PGBOUNCER" "$data/pgbouncer.ini"
  wait_until 20 pgbouncer ready
}

stop() { stop_process pgbouncer TERM 5; } # TERM: at once; INT would wait for the clients
