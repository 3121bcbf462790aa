# shellcheck shell=bash
# Toxiproxy: a TCP proxy that can delay, cut and throttle on command. It keeps no data.

TOXIPROXY_SERVER=$TOOL_DIR/toxiproxy-server@$TOXIPROXY_VERSION/toxiproxy-server
PROCESSES=(toxiproxy)

installed() { [[ -x $TOXIPROXY_SERVER ]]; }
install() { go_install github.com/Shopify/toxiproxy/v2/cmd/server "$TOXIPROXY_VERSION" toxiproxy-server; }
version() { echo "${TOXIPROXY_VERSION#v}"; }
url() { echo "http://$HOST:$TOXIPROXY_PORT"; }
environment() { echo "BELFRY_TEST_TOXIPROXY_URL=$(url)"; }
ready() { http_ok "$TOXIPROXY_PORT" /version; }

start() {
  port_free "$TOXIPROXY_PORT"
  spawn toxiproxy "$TOXIPROXY_SERVER" -host "$HOST" -port "$TOXIPROXY_PORT"
  wait_until 20 toxiproxy ready
}

stop() { stop_process toxiproxy TERM 5; }
