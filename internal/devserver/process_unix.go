//go:build unix

package devserver

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// detach gives a command a process group of its own, which Ctrl-C does not reach. If this process is root,
// it also runs the command as another user, because PostgreSQL refuses root, and gives the directories to
// that user.
func detach(cmd *exec.Cmd, dirs ...string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return fmt.Errorf("PostgreSQL does not run as root, and there is no other user to run it as;"+
				" start belfry dev as an ordinary user: %w", err)
		}
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := giveTo(dir, int(uid), int(gid)); err != nil {
			return err
		}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	cmd.Path = "/proc/self/exe" // this program, even if the other user cannot read its directory
	if _, err := os.Stat(cmd.Path); err != nil {
		cmd.Path = cmd.Args[0] // not Linux
	}
	cmd.Dir = dirs[0]
	return nil
}

// lock keeps other processes from using a directory until this one ends, however it ends.
func lock(dir string) error {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) // it is never closed, so the lock stays
	}
	return err
}

// giveTo changes the owner of a directory and everything in it.
func giveTo(dir string, uid, gid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, uid, gid)
	})
}
