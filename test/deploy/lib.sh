# shellcheck shell=bash
# What the tests of units, packages and images share.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
tools=$here/.tools

declare -A machine init # see boot
fail() {
  local name
  for name in "${!init[@]}"; do guest "$name" journalctl -u belfry --no-pager --lines 10 >&2 || true; done
  echo "FAIL: $*" >&2
  exit 1
}
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

# await WHAT COMMAND…: repeats a command until it succeeds. The limit only ends a hang, however busy the machine is.
await() {
  local until=$((SECONDS + 300)) what=$1
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || fail "waited in vain until $what"
    sleep 0.2
  done
}

# Both builds have the date of the commit that the test began with.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# Two parts of the tests may use what another one has built, so that it is built once and is the same: BELFRY_DIST is the
# directory of a release, BELFRY_OCI that of its image, and BELFRY_BINARY names the program.

# program FILE: the program as packages and images ship it, as version 0.1.0.
program() {
  if [[ -n ${BELFRY_BINARY:-} ]]; then
    cp "$BELFRY_BINARY" "$1"
  elif [[ -n ${BELFRY_DIST:-} ]]; then
    dpkg-deb --extract "$BELFRY_DIST/belfry_0.1.0-1_amd64.deb" "$work/deb"
    mv "$work/deb/usr/bin/belfry" "$1"
    rm -r "$work/deb"
  else
    BELFRY_TAGS=server "$here/dev/static" 0.1.0 "$1"
  fi
}

# commands NAME: the commands of docs/guide/install.md in blocks of this name.
commands() {
  awk -v fence="\`\`\`sh $1" '$0 == fence {on = 1; next} /^```/ {on = 0} on' "$here/docs/guide/install.md" >"$work/commands-$1"
  [[ -s $work/commands-$1 ]] || fail "docs/guide/install.md has no commands: $1"
  cat "$work/commands-$1"
}

# debian_root DIRECTORY PACKAGE…: a minimal Debian with packages. DEBIAN_ROOT names the archive of one that has them.
debian_root() {
  local dir=$1 packages
  shift
  packages=$(IFS=,; echo "$*")
  if [[ -n ${DEBIAN_ROOT:-} ]]; then
    mkdir -p "$dir" && tar -C "$dir" -xf "$DEBIAN_ROOT"
  else
    mmdebstrap --quiet --variant=minbase ${packages:+--include="$packages"} bookworm "$dir"
  fi
}

# boot NAME: boots the Debian in $work/NAME with systemd, in a network of its own. Its first process is then init[NAME].
boot() {
  systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$work/$1" --boot >"$work/console-$1" 2>&1 &
  machine[$1]=$!
  leader() { init[$1]=$(pgrep -P "${machine[$1]}" | head -1); [[ -n ${init[$1]} ]]; }
  await "machine $1 starts" leader "$1"
  cleanup+=("guest $1 systemctl poweroff --force --force 2>/dev/null; wait ${machine[$1]}")
  booted() { [[ $(guest "$1" systemctl is-system-running) =~ running|degraded ]]; }
  await "machine $1 has booted" booted "$1"
}

# guest NAME COMMAND…: runs a command on a machine.
guest() { nsenter -t "${init[$1]}" -m -u -i -n -p -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "${@:2}"; }
