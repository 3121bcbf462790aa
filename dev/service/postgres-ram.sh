# shellcheck shell=bash
# PostgreSQL of Debian 12 with its data in memory: a test's database is cloned and dropped several
# times faster there than on most disks. Nothing survives its stop; what tests durability uses `postgres`.
. "$DEV_DIR/service/pg.sh"

PG_BIN=/usr/lib/postgresql/${POSTGRES_PACKAGE#postgresql-}/bin
PROCESSES=(postgres-ram)
# One folder for each checkout.
RAM_DIR=/dev/shm/belfry-$(cksum <<<"$RUN_DIR" | cut -d ' ' -f 1)

installed() { [[ -x $PG_BIN/postgres ]]; }
install() { apt_install "$POSTGRES_PACKAGE"; }
version() { pg_version; }
url() { pg_url "$POSTGRES_RAM_PORT"; }
environment() { echo "BELFRY_TEST_DATABASE_URL=$(url)"; }
ready() { pg_ready "$RAM_DIR/main" "$POSTGRES_RAM_PORT"; }

start() {
  port_free "$POSTGRES_RAM_PORT"
  local free
  free=$(df --output=avail -m /dev/shm | tail -n 1)
  ((free >= 1024)) || die "/dev/shm has $free MB free and 1024 are wanted (docker run --shm-size=2g); use the service postgres instead"
  # Everyone can write to /dev/shm: a folder or link that is there already is not ours.
  rm -rf "$RAM_DIR"
  mkdir -m 700 "$RAM_DIR" || die "cannot make $RAM_DIR"
  if ((EUID == 0)); then chown "$SERVICE_USER:" "$RAM_DIR"; fi
  pg_init "$RAM_DIR/main"
  pg_spawn postgres-ram "$RAM_DIR/main" "$POSTGRES_RAM_PORT" "$POSTGRES_SHARED_BUFFERS"
  wait_until 60 postgres-ram ready
}

stop() {
  stop_process postgres-ram INT 20
  rm -rf "$RAM_DIR"
}
