package store

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence has the kernel give up on a connection whose peer acknowledges nothing.
func limitSilence(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(maxSilence.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
