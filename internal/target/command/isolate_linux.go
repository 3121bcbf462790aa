package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// patiently starts a program that ignores these signals, as the runner does. Supervisors send them to all processes of
// a node when it stops, and the node decides when its commands end.
const patiently = `trap '' HUP INT TERM; exec "$0" "$@"`

// isolate returns the process of a runner that is started in its own session, so that Ctrl-C stops the node but
// not its commands. A node that runs as root starts the runner as another user. If it runs programs, it is started in
// a sandbox of its own: see runner.Settings.Confine.
func isolate(o *Options) (*exec.Cmd, error) {
	//nolint:gosec,noctx // it is this program itself, and ends when its stdin is closed
	cmd := exec.Command(o.Executable[0], o.Executable[1:]...)
	if len(o.Programs) > 0 {
		// The file may have been replaced by another version, and is not in the sandbox.
		self, err := os.Open(o.Executable[0])
		if err != nil {
			return nil, fmt.Errorf("open this program: %w", err)
		}
		args := slices.Concat([]string{"-c", patiently, o.Bubblewrap}, o.Confine(), []string{"--", "/proc/self/fd/3"},
			o.Executable[1:])
		cmd = exec.Command("/bin/sh", args...) //nolint:gosec,noctx // as above
		cmd.ExtraFiles = []*os.File{self}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.User), Gid: uint32(o.User)}
	}
	return cmd, nil
}

// findBubblewrap replaces the name of bubblewrap with its path.
func findBubblewrap(o *Options) error {
	if len(o.Programs) == 0 {
		return nil
	}
	path, err := exec.LookPath(o.Bubblewrap)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("bubblewrap is not there (%s); install the package bubblewrap, "+
			"or say where it is with command.bubblewrap", o.Bubblewrap)
	}
	o.Bubblewrap = path
	return nil
}

// hideProcess prevents other processes of the node's user from reading its memory and environment, which
// contain the database's URL.
func hideProcess() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// hints returns why this machine may forbid the namespaces of a sandbox.
func hints() (out []string) {
	for _, h := range []struct{ file, forbids, hint string }{
		{
			"/proc/sys/user/max_user_namespaces", "0",
			"user namespaces are forbidden here: set the sysctl user.max_user_namespaces to 10000",
		},
		{
			"/proc/sys/kernel/unprivileged_userns_clone", "0",
			"user namespaces are forbidden to unprivileged users: set the sysctl kernel.unprivileged_userns_clone to 1",
		},
		{
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts user namespaces: give bwrap a profile with userns that does not restrict what bwrap " +
				"starts, or set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0",
		},
	} {
		text, err := os.ReadFile(h.file)
		if err == nil && strings.TrimSpace(string(text)) == h.forbids {
			out = append(out, h.hint)
		}
	}
	_, docker := os.Stat("/.dockerenv")
	_, podman := os.Stat("/run/.containerenv")
	if docker == nil || podman == nil {
		out = append(out, "in a container its seccomp profile must allow unshare, mount and pivot_root, "+
			"or commands run as containers (command.container_socket)")
	}
	return out
}
