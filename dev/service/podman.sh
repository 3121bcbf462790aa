# shellcheck shell=bash
# Podman, answering Docker's API at a socket, with an image of busybox to run. It needs root, like what it stands for.
# Its storage is its own (vfs works on every file system) and so are its containers.

PROCESSES=(podman)
PODMAN_SOCKET=$RUN_DIR/podman.sock
PODMAN_IMAGE=localhost/belfry-test:1
RUN_AS=()

installed() { command -v podman && command -v runc && [[ -x /bin/busybox ]]; } >/dev/null
# crun, which Podman prefers, refuses machines that have both versions of cgroups.
install() { apt_install podman runc conmon busybox-static; }
version() { podman --version | awk '{print $NF}'; }
url() { echo "unix://$PODMAN_SOCKET"; }
environment() {
  echo "BELFRY_TEST_CONTAINER_SOCKET=$PODMAN_SOCKET"
  echo "BELFRY_TEST_CONTAINER_IMAGE=$PODMAN_IMAGE"
}

podman_here() {
  env CONTAINERS_CONF="$RUN_DIR/containers.conf" podman --root "$RUN_DIR/data/storage" --runroot "$RUN_DIR/data/run" \
    --storage-driver vfs --runtime runc --cgroup-manager cgroupfs "$@"
}
ready() { [[ -S $PODMAN_SOCKET ]] && podman_here image exists "$PODMAN_IMAGE"; }

# Its default limits may be above those of the machine, and then nothing starts.
configure() { printf '[containers]\ndefault_ulimits=["nofile=1024:4096","nproc=4096:4096"]\n[engine]\nevents_logger="file"\n' >"$RUN_DIR/containers.conf"; }

make_image() {
  local root=$RUN_DIR/data/image
  mkdir -p "$root/bin"
  cp /bin/busybox "$root/bin/"
  for name in sh cat echo sleep id ls env head kill mount tail yes; do ln -sf busybox "$root/bin/$name"; done
  tar -C "$root" -c . | logged podman_here import - "$PODMAN_IMAGE"
}

start() {
  ((EUID == 0)) || die "it needs root"
  configure
  podman_here image exists "$PODMAN_IMAGE" || make_image
  rm -f "$PODMAN_SOCKET"
  spawn podman env CONTAINERS_CONF="$RUN_DIR/containers.conf" podman --root "$RUN_DIR/data/storage" --runroot "$RUN_DIR/data/run" \
    --storage-driver vfs --runtime runc --cgroup-manager cgroupfs system service --time 0 "unix://$PODMAN_SOCKET"
  wait_until 30 podman ready
  chmod 666 "$PODMAN_SOCKET" # for tests that run commands as the user nobody
}

stop() { stop_process podman TERM 10; }
