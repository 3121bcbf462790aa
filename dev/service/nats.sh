# shellcheck shell=bash
# NATS with JetStream, which keeps its streams in files; and another one that speaks TLS alone, as a server has one port.

NATS_SERVER=$TOOL_DIR/nats-server@$NATS_VERSION/nats-server
PROCESSES=(nats nats-tls)

installed() { [[ -x $NATS_SERVER ]]; }
install() { go_install github.com/nats-io/nats-server/v2 "$NATS_VERSION" nats-server; }
version() { echo "${NATS_VERSION#v}"; }
url() { echo "nats://$HOST:$NATS_PORT"; }
environment() {
  echo "BELFRY_TEST_NATS_URL=$(url)"
  echo "BELFRY_TEST_NATS_TLS_URL=tls://belfry:$TLS_PASSWORD@$HOST:$NATS_TLS_PORT"
  echo "BELFRY_TEST_SERVICES_DIR=$SERVICES_DIR" # for tests that start one of their own
}
ready() { http_ok "$NATS_MONITOR_PORT" /healthz && grep -q 'Server is ready' "$RUN_DIR/nats-tls.log"; }

start() {
  local tls=$RUN_DIR/data/tls
  port_free "$NATS_PORT" "$NATS_MONITOR_PORT" "$NATS_TLS_PORT"
  certificates
  cat >"$tls/nats.conf" <<EOF
server_name: belfry-tls
listen: "$HOST:$NATS_TLS_PORT"
jetstream: {store_dir: "$RUN_DIR/data/with-tls"}
authorization: {users: [{user: belfry, password: "$TLS_PASSWORD"}]}
# which of them, is chosen by the name that the client asks for
tls: {certs: [{cert_file: "$tls/server.pem", key_file: "$tls/server.pem"}, {cert_file: "$tls/expired.pem", key_file: "$tls/expired.pem"}]}
EOF
  spawn nats "$NATS_SERVER" --name belfry --addr "$HOST" --port "$NATS_PORT" --http_port "$NATS_MONITOR_PORT" \
    --jetstream --store_dir "$RUN_DIR/data"
  spawn nats-tls "$NATS_SERVER" --config "$tls/nats.conf"
  wait_until 60 nats ready
}

stop() {
  stop_process nats-tls TERM 10
  stop_process nats TERM 10
}
