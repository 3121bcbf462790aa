#!/bin/sh
# Files that the operator put into /etc/belfry stay, even on purge: a keyset that is lost makes secrets unreadable. The
# user stays too, so that no other user gets its number and its files.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ] && [ -d /etc/belfry ]; then
  rmdir --ignore-fail-on-non-empty /etc/belfry
fi
