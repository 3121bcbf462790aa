# shellcheck shell=bash
# A primary and two standbys: a commit waits until at least one standby has it on disk.
. "$DEV_DIR/service/pg.sh"

PG_BIN=/usr/lib/postgresql/${POSTGRES_PACKAGE#postgresql-}/bin
PROCESSES=(primary standby1 standby2)
STANDBYS=(standby1 standby2)
STANDBY_PORTS=($((POSTGRES_HA_PORT + 1)) $((POSTGRES_HA_PORT + 2)))

installed() { [[ -x $PG_BIN/pg_basebackup ]]; }
install() { apt_install "$POSTGRES_PACKAGE"; }
version() { pg_version; }

# All three hosts; the client takes the one that accepts writes, also after a failover.
url() {
  echo "postgres://belfry@$HOST:$POSTGRES_HA_PORT,$HOST:${STANDBY_PORTS[0]},$HOST:${STANDBY_PORTS[1]}/belfry?sslmode=disable&target_session_attrs=read-write"
}

environment() {
  echo "BELFRY_TEST_HA_URL=$(url)"
  echo "BELFRY_TEST_HA_PRIMARY_URL=$(pg_url "$POSTGRES_HA_PORT")"
  echo "BELFRY_TEST_HA_STANDBY1_URL=$(pg_url "${STANDBY_PORTS[0]}")"
  echo "BELFRY_TEST_HA_STANDBY2_URL=$(pg_url "${STANDBY_PORTS[1]}")"
}

query() { "$PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$HOST" -p "$POSTGRES_HA_PORT" -U belfry -d belfry -c "$1"; }

ready() { [[ $(query "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'") == 2 ]]; }

start() {
  local data=$RUN_DIR/data i
  port_free "$POSTGRES_HA_PORT" "${STANDBY_PORTS[@]}"
  pg_init "$data/primary"
  # A standby that stays away must not fill the disk with the log kept for it.
  pg_spawn primary "$data/primary" "$POSTGRES_HA_PORT" "$POSTGRES_HA_SHARED_BUFFERS" \
    "synchronous_standby_names=ANY 1 (standby1, standby2)" max_slot_wal_keep_size=1GB
  wait_until 60 primary pg_ready "$data/primary" "$POSTGRES_HA_PORT"
  for i in 0 1; do start_standby "${STANDBYS[i]}" "${STANDBY_PORTS[i]}"; done
  wait_until 60 standby2 ready
}

start_standby() {
  local name=$1 port=$2 dir=$RUN_DIR/data/$1
  # No standby.signal: never copied, or promoted by a test. Either way it is copied again.
  if [[ ! -e $dir/standby.signal ]]; then
    say "copying the primary to $name"
    query "SELECT pg_create_physical_replication_slot('$name') WHERE NOT EXISTS (
      SELECT FROM pg_replication_slots WHERE slot_name = '$name')" >/dev/null
    rm -rf "$dir" "$dir.new"
    logged "${RUN_AS[@]}" "$PG_BIN/pg_basebackup" -D "$dir.new" -h "$HOST" -p "$POSTGRES_HA_PORT" -U belfry -X stream -c fast --no-sync
    "${RUN_AS[@]}" touch "$dir.new/standby.signal"
    mv "$dir.new" "$dir"
  fi
  pg_spawn "$name" "$dir" "$port" "$POSTGRES_HA_SHARED_BUFFERS" "primary_slot_name=$name" \
    "primary_conninfo=host=$HOST port=$POSTGRES_HA_PORT user=belfry application_name=$name" \
    "synchronous_standby_names=ANY 1 (standby1, standby2)"
  wait_until 60 "$name" pg_ready "$dir" "$port"
}

# The primary goes first, so that the standbys receive all it wrote.
stop() {
  local proc
  for proc in "${PROCESSES[@]}"; do stop_process "$proc" INT 20; done
}
