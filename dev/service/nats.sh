# shellcheck shell=bash
# NATS with JetStream, which keeps its streams in files.

NATS_SERVER=$TOOL_DIR/nats-server@$NATS_VERSION/nats-server
PROCESSES=(nats)

installed() { [[ -x $NATS_SERVER ]]; }
install() { go_install github.com/nats-io/nats-server/v2 "$NATS_VERSION" nats-server; }
version() { echo "${NATS_VERSION#v}"; }
url() { echo "nats://$HOST:$NATS_PORT"; }
environment() {
  echo "BELFRY_TEST_NATS_URL=$(url)"
  echo "BELFRY_TEST_SERVICES_DIR=$SERVICES_DIR" # for tests that start one of their own
}
ready() { http_ok "$NATS_MONITOR_PORT" /healthz; }

start() {
  port_free "$NATS_PORT" "$NATS_MONITOR_PORT"
  spawn nats "$NATS_SERVER" --name belfry --addr "$HOST" --port "$NATS_PORT" --http_port "$NATS_MONITOR_PORT" \
    --jetstream --store_dir "$RUN_DIR/data"
  wait_until 30 nats ready
}

stop() { stop_process nats TERM 10; }
