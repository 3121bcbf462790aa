#!/bin/sh
# Stops the node when the package is removed ("remove" of dpkg, 0 of rpm), and not when it is upgraded.
set -e
case $1 in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl --no-reload disable --now belfry.service
    fi
    ;;
esac
