# shellcheck shell=bash
# What the tests of units, packages and images share.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
tools=$here/.tools

fail() { echo "FAIL: $*" >&2; exit 1; }
ok() { echo "ok: $*"; }

((EUID == 0)) || fail "this test needs root: it creates file system roots, packages and images"

# work: a directory of the test, removed at its end. `cleanup` holds what else has to be done then.
work=$(mktemp -d "${TMPDIR:-/var/tmp}/belfry-deploy.XXXXXX")
cleanup=()
finish() {
  local i
  for ((i = ${#cleanup[@]} - 1; i >= 0; i--)); do eval "${cleanup[i]}" || true; done
  rm -rf --one-file-system "$work"
}
trap finish EXIT

# await SECONDS WHAT COMMAND…: repeats a command until it succeeds. The limit only ends a hang.
await() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || fail "waited in vain until $what"
    sleep 0.2
  done
}

# Both builds have the date of the commit that the test began with.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# program FILE: the program as packages and images ship it, as version 0.1.0. BELFRY_BINARY names one that is built already.
program() {
  if [[ -n ${BELFRY_BINARY:-} ]]; then cp "$BELFRY_BINARY" "$1"; else BELFRY_TAGS=server "$here/dev/static" 0.1.0 "$1"; fi
}

# debian_root DIRECTORY PACKAGE…: a minimal Debian with packages.
debian_root() {
  local dir=$1 packages
  shift
  packages=$(IFS=,; echo "$*")
  mmdebstrap --quiet --variant=minbase ${packages:+--include="$packages"} bookworm "$dir"
}
