#!/bin/sh
# Creates the user of the nodes. The unit is neither enabled nor started: it needs the URL of a database first. An
# upgrade does not restart the node either, because the operator decides in which order nodes restart.
set -e
if ! getent passwd belfry >/dev/null; then
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin belfry
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
