package command

import (
	"cmp"
	"syscall"

	"golang.org/x/sys/unix"
)

func signalName(n int) string {
	return cmp.Or(unix.SignalName(syscall.Signal(n)), "not a known signal")
}
