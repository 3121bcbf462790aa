package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate starts the runner in its own session, so that Ctrl-C stops the node but not its commands. A node
// that runs as root starts the runner as another user.
func isolate(user int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		a.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	return a
}

// hideProcess prevents other processes of the node's user from reading its memory and environment, which
// contain the database's URL.
func hideProcess() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
