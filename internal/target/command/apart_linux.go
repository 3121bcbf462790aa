package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart makes the runner a session of its own, so that a Ctrl-C for the node is
// none for its commands. A node that is root does not run them as root.
func apart(user int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		a.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	return a
}

// hideProcess keeps other processes of the node's user from reading its memory
// and environment, where the database's URL is.
func hideProcess() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
