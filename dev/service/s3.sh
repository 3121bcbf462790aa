# shellcheck shell=bash
# An S3 API over a folder (versitygw).

VERSITYGW=$TOOL_DIR/versitygw@$VERSITYGW_VERSION/versitygw
PROCESSES=(s3)

installed() { [[ -x $VERSITYGW ]]; }
install() { go_install github.com/versity/versitygw/cmd/versitygw "$VERSITYGW_VERSION" versitygw; }
version() { echo "${VERSITYGW_VERSION#v}"; }
url() { echo "http://$HOST:$S3_PORT"; }
ready() { http_ok "$S3_PORT" /health; }

environment() {
  echo "BELFRY_TEST_S3_URL=$(url)"
  echo "BELFRY_TEST_S3_ACCESS_KEY=$S3_ACCESS_KEY"
  echo "BELFRY_TEST_S3_SECRET_KEY=$S3_SECRET_KEY"
}

start() {
  local data=$RUN_DIR/data
  port_free "$S3_PORT"
  "${RUN_AS[@]}" mkdir -p "$data/objects" "$data/meta"
  # --sidecar keeps the metadata in files: not every file system has extended attributes.
  spawn s3 env ROOT_ACCESS_KEY="$S3_ACCESS_KEY" ROOT_SECRET_KEY="$S3_SECRET_KEY" \
    "$VERSITYGW" --port "$HOST:$S3_PORT" --health /health posix --sidecar "$data/meta" "$data/objects"
  wait_until 20 s3 ready
}

stop() { stop_process s3 TERM 10; }
