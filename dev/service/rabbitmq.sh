# shellcheck shell=bash
# RabbitMQ of Debian 12, as its own node, apart from any that Debian's service manages.

RABBITMQ_BIN=/usr/lib/rabbitmq/bin # not /usr/sbin, whose wrapper insists on Debian's user and folders
PROCESSES=(epmd rabbitmq)

installed() { [[ -x $RABBITMQ_BIN/rabbitmq-server ]]; }
install() { apt_install "$RABBITMQ_PACKAGE"; }
version() { dpkg-query -W -f '${Version}' "$RABBITMQ_PACKAGE" | sed 's/-.*//'; }
url() { echo "amqp://belfry:belfry@$HOST:$RABBITMQ_PORT/"; }
environment() {
  echo "BELFRY_TEST_AMQP_URL=$(url)"
  echo "BELFRY_TEST_AMQP_TLS_URL=amqps://belfry:belfry@$HOST:$RABBITMQ_TLS_PORT/"
  echo "BELFRY_TEST_SERVICES_DIR=$SERVICES_DIR" # for tests that start one of their own
}
ready() { grep -q 'Server startup complete' "$RUN_DIR/rabbitmq.log" && port_open "$RABBITMQ_PORT" && port_open "$RABBITMQ_TLS_PORT"; }

start() {
  local data=$RUN_DIR/data tls=$RUN_DIR/data/tls
  port_free "$RABBITMQ_PORT" "$RABBITMQ_TLS_PORT" "$RABBITMQ_DIST_PORT" "$RABBITMQ_EPMD_PORT"
  cat >"$data/rabbitmq.conf" <<EOF
listeners.tcp.1 = $HOST:$RABBITMQ_PORT
listeners.ssl.1 = $HOST:$RABBITMQ_TLS_PORT
default_user = belfry
default_pass = belfry
log.console = true
log.console.level = info
vm_memory_high_watermark.absolute = 1GB
EOF
  certificates
  # By the name that a client asks for: a certificate that has expired, or one wanted of the client.
  cat >"$data/advanced.config" <<EOF
[{rabbit, [{ssl_options, [{certfile, "$tls/server.pem"}, {keyfile, "$tls/server.pem"}, {cacertfile, "$tls/ca.pem"}, {verify, verify_none},
  {sni_hosts, [{"expired.test", [{certfile, "$tls/expired.pem"}, {keyfile, "$tls/expired.pem"}]},
    {"mutual.test", [{verify, verify_peer}, {fail_if_no_peer_cert, true}]}]}]}]}].
EOF
  echo '[].' >"$data/enabled_plugins"
  : >"$data/env.conf"
  # Left to itself, Erlang starts an epmd that listens everywhere and outlives the server.
  spawn epmd epmd -address "$HOST" -port "$RABBITMQ_EPMD_PORT"
  wait_until 60 epmd port_open "$RABBITMQ_EPMD_PORT"
  # RUNNING_UNDER_SYSTEMD: the script replaces itself by Erlang, so that ours is the server's pid.
  # +sbwt none: an idle scheduler sleeps instead of spinning on a shared core.
  spawn rabbitmq env RUNNING_UNDER_SYSTEMD=true ERL_EPMD_PORT="$RABBITMQ_EPMD_PORT" ERL_EPMD_ADDRESS="$HOST" \
    RABBITMQ_NODENAME=belfry@localhost RABBITMQ_DIST_PORT="$RABBITMQ_DIST_PORT" \
    RABBITMQ_CONF_ENV_FILE="$data/env.conf" RABBITMQ_CONFIG_FILE="$data/rabbitmq.conf" RABBITMQ_ADVANCED_CONFIG_FILE="$data/advanced.config" \
    RABBITMQ_ENABLED_PLUGINS_FILE="$data/enabled_plugins" \
    RABBITMQ_MNESIA_BASE="$data/mnesia" RABBITMQ_LOG_BASE="$data/log" RABBITMQ_LOGS=- \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none' \
    "$RABBITMQ_BIN/rabbitmq-server"
  wait_until 300 rabbitmq ready
}

stop() {
  stop_process rabbitmq TERM 30
  stop_process epmd TERM 5
}
