# shellcheck shell=bash
# What the service files share: installing, processes, ports. Linux only: it reads /proc.
#
# Layout of $SERVICES_DIR:   tool/NAME@VERSION/   what was built or unpacked
#                            run/SERVICE/         PROC.pid, PROC.log, install.log, data/

# A caller's umask or locale must not decide whether the service user can read a file,
# nor in which language a server writes its log.
umask 022
export LC_ALL=C.UTF-8

DEV_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# Absolute: the servers run in /, so as not to hold the caller's folder.
SERVICES_DIR=$(realpath -m "${BELFRY_SERVICES_DIR:-$DEV_DIR/../.services}")
TOOL_DIR=$SERVICES_DIR/tool
RUN_DIR=$SERVICES_DIR/run/${SERVICE:-}
SERVICE_USER=belfry-dev
HOST=127.0.0.1

say() { printf '%-12s %s\n' "${SERVICE:-services}" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# ---- installing ----

# attempt SECONDS COMMAND…: run it, within the limit, once more if it fails (downloads do).
attempt() {
  local limit=$1 log=$RUN_DIR/install.log; shift
  timeout "$limit" "$@" >"$log" 2>&1 </dev/null && return
  say "failed, trying once more: $*"
  timeout "$limit" "$@" >"$log" 2>&1 </dev/null && return
  tail -n 20 "$log" >&2
  die "cannot install: $* (full log: $log)"
}

# logged COMMAND…: keep its output out of sight unless it fails.
logged() {
  "$@" >"$RUN_DIR/install.log" 2>&1 && return
  tail -n 20 "$RUN_DIR/install.log" >&2
  die "failed: $*"
}

# apt_install PACKAGE…: Debian packages, without letting them start their system service.
apt_install() {
  local missing=() package policy=/usr/sbin/policy-rc.d
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *' installed' ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || die "missing packages; run: sudo apt-get install -y --no-install-recommends ${missing[*]}"
  say "installing ${missing[*]} (apt)"
  # Debian asks this file before it starts a freshly installed server; 101 means "do not".
  if [[ ! -e $policy ]]; then
    # shellcheck disable=SC2064
    trap "rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
  fi
  # The package lists may be missing or old: the refresh is part of every try.
  DEBIAN_FRONTEND=noninteractive attempt 600 sh -c \
    'apt-get -q update; exec apt-get -q install -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"' sh "${missing[@]}"
}

# go_install PACKAGE VERSION NAME: build a released command into $TOOL_DIR/NAME@VERSION/NAME.
# `go install` in no module builds with the dependency versions its authors released it with;
# `tool` lines in a module of ours would mix the requirements of all of them.
go_install() {
  local package=$1 version=$2 name=$3 dir=$TOOL_DIR/$3@$2
  [[ -x $dir/$name ]] && return
  command -v go >/dev/null || die "Go is not installed"
  say "building $name $version (go install)"
  rm -rf "$dir" "$dir.new" && mkdir -p "$dir.new"
  attempt 600 env GOBIN="$dir.new" GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0 go install "$package@$version"
  mv "$dir.new/$(basename "$package")" "$dir.new/$name" 2>/dev/null || true # already of that name
  mv "$dir.new" "$dir"
}

# ---- the user the servers run as ----

# PostgreSQL refuses to run as root, and no other server needs it: root starts all of them
# as one system user. setpriv and env replace themselves by the command, so its pid is theirs.
RUN_AS=()
if ((EUID == 0)); then
  RUN_AS=(setpriv "--reuid=$SERVICE_USER" "--regid=$SERVICE_USER" --init-groups
    env "HOME=$RUN_DIR/data" "USER=$SERVICE_USER")
fi

# service_user: make that user, and let it pass through the folders above the data.
service_user() {
  ((EUID == 0)) || return 0
  id "$SERVICE_USER" >/dev/null 2>&1 ||
    useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$SERVICE_USER"
  passable "$SERVICES_DIR"
}

# passable DIR: from the top, so that only a folder which is really closed is touched.
passable() {
  if [[ $1 == / ]]; then return; fi
  passable "$(dirname "$1")"
  if "${RUN_AS[@]}" test -x "$1"; then return; fi
  say "chmod o+x $1, as user $SERVICE_USER must pass through it (BELFRY_SERVICES_DIR chooses another place)"
  chmod o+x "$1"
}

# data_dir: make $RUN_DIR/data, for the service user alone.
data_dir() {
  mkdir -p "$RUN_DIR/data"
  # Whole, because another user may have started the service here before.
  if ((EUID == 0)) && [[ $(stat -c %U "$RUN_DIR/data") != "$SERVICE_USER" ]]; then chown -R "$SERVICE_USER:" "$RUN_DIR/data"; fi
  chmod 700 "$RUN_DIR/data"
}

# ---- processes ----
# A pid file holds "PID STARTTIME": the start time distinguishes our process from a later one that
# was given the same number.

start_time() { # field 22 of the line; the name in field 2 may hold spaces, so count from behind it
  local stat
  read -r stat <"/proc/$1/stat" && read -ra stat <<<"${stat##*) }" && echo "${stat[19]}"
} 2>/dev/null

# pid_of PROC: print the pid if that very process is alive.
pid_of() {
  local pid started
  read -r pid started 2>/dev/null <"$RUN_DIR/$1.pid" || return 1
  [[ $(start_time "$pid") == "$started" && $(<"/proc/$pid/stat") != *') Z '* ]] 2>/dev/null && echo "$pid"
}

# spawn PROC COMMAND…: start it in a session of its own, in /, with nothing of the caller's open.
spawn() {
  local proc=$1 log=$RUN_DIR/$1.log fd; shift
  if [[ -e $log ]]; then mv -f "$log" "$log.1"; fi
  (
    for fd in /proc/"$BASHPID"/fd/*; do
      fd=${fd##*/}
      if ((fd > 2)); then exec {fd}>&-; fi # the lock, or a pipe of the caller's test runner
    done
    cd /
    trap '' HUP
    exec setsid "${RUN_AS[@]}" "$@" </dev/null >"$log" 2>&1
  ) &
  echo "$! $(start_time $!)" >"$RUN_DIR/$proc.pid"
}

# stop_process PROC SIGNAL SECONDS: ask it to stop, kill it after the bound.
stop_process() {
  local pid i
  if pid=$(pid_of "$1"); then
    kill -s "$2" "$pid" 2>/dev/null || true
    for ((i = 0; i < $3 * 20; i++)); do
      pid_of "$1" >/dev/null || break
      sleep 0.05
    done
    if pid_of "$1" >/dev/null; then
      say "$1 did not stop within $3 s: killing $pid"
      kill -s KILL -- "-$pid" 2>/dev/null || kill -s KILL "$pid" 2>/dev/null || true
    fi
  fi
  rm -f "$RUN_DIR/$1.pid"
}

# wait_until SECONDS PROC COMMAND…: until the command succeeds; at once an error if PROC dies. The limit only ends a
# hang, so a slow machine must not reach it.
wait_until() {
  local limit=$1 proc=$2 deadline=$((SECONDS + $1)); shift 2
  until "$@" >/dev/null 2>&1; do
    if ! pid_of "$proc" >/dev/null; then
      tail -n 20 "$RUN_DIR/$proc.log" >&2
      die "$proc ended right after its start (full log: $RUN_DIR/$proc.log)"
    fi
    if ((SECONDS >= deadline)); then
      tail -n 20 "$RUN_DIR/$proc.log" >&2
      die "$proc runs but is not ready within $limit s; \"down $SERVICE\" and \"up $SERVICE\" start it anew (full log: $RUN_DIR/$proc.log)"
    fi
    sleep 0.1
  done
}

# ---- ports ----

port_open() { (exec 3<>"/dev/tcp/$HOST/$1") 2>/dev/null; }

# port_free PORT…: a port may linger a moment after a crash; a stranger's stays.
port_free() {
  local port i
  for port in "$@"; do
    for ((i = 0; i < 30; i++)); do
      port_open "$port" || continue 2
      sleep 0.1
    done
    die "port $port is in use by another process: $(ss -Hltnp "sport = :$port" 2>/dev/null | awk '{print $NF}' | sort -u | head -1)"
  done
}

# http_ok PORT PATH [STATUS]: does it answer a request with that status?
http_ok() {
  local line
  exec 3<>"/dev/tcp/$HOST/$1" || return 1
  printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$2" "$HOST" >&3
  read -r -t 2 line <&3
  exec 3>&-
  [[ $line == "HTTP/1."?" ${3:-200} "* ]]
} 2>/dev/null

# ---- TLS ----

# certificates: create a new CA in $RUN_DIR/data/tls and its certificates, each with its key in one file: server.pem for
# this machine (and mutual.test), expired.pem for expired.test, and client.pem.
certificates() {
  local dir=$RUN_DIR/data/tls line name days alt new=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
  rm -rf "$dir" && mkdir "$dir"
  command -v openssl >/dev/null || apt_install openssl
  logged openssl req -x509 "${new[@]}" -subj '/CN=Belfry development' -days 365 -keyout "$dir/ca.key" -out "$dir/ca.pem"
  for line in "server 365 DNS:localhost,DNS:mutual.test,IP:$HOST" "expired -1 DNS:expired.test" "client 365 DNS:belfry.test"; do
    read -r name days alt <<<"$line"
    logged openssl req -new "${new[@]}" -subj "/CN=$name" -addext "subjectAltName=$alt" -keyout "$dir/$name.pem" -out "$dir/$name.csr"
    logged openssl x509 -req -in "$dir/$name.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -days "$days" -copy_extensions copy -out "$dir/$name.crt"
    cat "$dir/$name.crt" >>"$dir/$name.pem"
  done
  rm -f "$dir/ca.key" "$dir"/*.csr "$dir"/*.crt # nothing is signed with it later
  if ((EUID == 0)); then chown -R "$SERVICE_USER:" "$dir"; fi
}
