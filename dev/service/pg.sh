# shellcheck shell=bash
# PostgreSQL for the postgres services and pgbouncer. $PG_BIN is its bin folder.

# A PGPORT or PGOPTIONS of the caller's must not reach our servers and clients.
unset PGDATA PGHOST PGHOSTADDR PGPORT PGUSER PGPASSWORD PGDATABASE PGSERVICE PGOPTIONS PGSSLMODE

# pg_init DIR: a cluster with superuser and database `belfry`.
# Authentication is trust: loopback only, test data only, and new connections stay cheap.
pg_init() {
  local dir=$1
  [[ -e $dir/belfry.ready ]] && return
  rm -rf "$dir" # left by an interrupted initdb
  say "initialising $(basename "$dir")"
  # Not synced to disk while it is made (the server itself runs with fsync=on): should the machine
  # lose power in these seconds, there is nothing to lose yet.
  logged "${RUN_AS[@]}" "$PG_BIN/initdb" -D "$dir" -U belfry --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync --no-instructions
  # Single-user mode needs no running server and waits for no standby.
  logged "${RUN_AS[@]}" "$PG_BIN/postgres" --single -F -D "$dir" postgres <<<'CREATE DATABASE belfry'
  "${RUN_AS[@]}" touch "$dir/belfry.ready"
}

# pg_spawn PROC DIR PORT SHARED_BUFFERS [SETTING…]
# Settings go on the command line, so that a change here reaches a cluster that exists already.
pg_spawn() {
  local proc=$1 dir=$2 port=$3 buffers=$4 setting settings=() socket_dir=$2 i; shift 4
  # A socket's path must fit 107 bytes; in a deep folder TCP alone has to do.
  if ((${#dir} + ${#port} + 10 > 107)); then socket_dir=; fi
  # The children of a killed server live on a moment; PostgreSQL's processes all work in $dir.
  for ((i = 0; i < 100; i++)); do
    [[ -n $(find /proc -maxdepth 2 -name cwd -lname "$dir" 2>/dev/null) ]] || break
    sleep 0.1
  done
  ((i < 100)) || die "processes of an earlier server still work in $dir"
  # None is left, so its lock files are stale. PostgreSQL itself cannot always know: in a container
  # whose first process is slow to reap, the dead server is still visible as a zombie.
  rm -f "$dir/postmaster.pid" "$dir"/.s.PGSQL.*
  for setting in "listen_addresses=$HOST" "port=$port" "unix_socket_directories=$socket_dir" \
    "shared_buffers=$buffers" max_connections=300 fsync=on synchronous_commit=on "$@"; do
    settings+=(-c "$setting")
  done
  spawn "$proc" "$PG_BIN/postgres" -D "$dir" "${settings[@]}"
}

# A server with its data in memory: a test's database is cloned and dropped several times faster there than on most
# disks. Nothing survives its stop. One folder for each checkout and service.
RAM_DIR=/dev/shm/belfry-$(cksum <<<"$RUN_DIR" | cut -d ' ' -f 1)

# pg_start_in_memory PROC PORT
pg_start_in_memory() {
  port_free "$2"
  local free
  free=$(df --output=avail -m /dev/shm | tail -n 1)
  ((free >= 1024)) || die "/dev/shm has $free MB free and 1024 are wanted (docker run --shm-size=4g); use the service postgres instead"
  # Everyone can write to /dev/shm: a folder or link that is there already is not ours.
  rm -rf "$RAM_DIR"
  mkdir -m 700 "$RAM_DIR" || die "cannot make $RAM_DIR"
  if ((EUID == 0)); then chown "$SERVICE_USER:" "$RAM_DIR"; fi
  pg_init "$RAM_DIR/main"
  pg_spawn "$1" "$RAM_DIR/main" "$2" "$POSTGRES_SHARED_BUFFERS"
  wait_until 60 "$1" ready
}

pg_stop_in_memory() {
  stop_process "$1" INT 20
  rm -rf "$RAM_DIR"
}

# pg_ready DIR PORT: by the status PostgreSQL writes for pg_ctl, as not every build has pg_isready.
pg_ready() { [[ $(sed -n 8p "$1/postmaster.pid" 2>/dev/null) == ready* ]] && port_open "$2"; }
pg_version() { "$PG_BIN/postgres" --version | awk '{print $3}'; }
pg_url() { echo "postgres://belfry@$HOST:$1/belfry?sslmode=disable"; }
