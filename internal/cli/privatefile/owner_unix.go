//go:build unix

package privatefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// keepOwner gives a new file to the owner and the group of the one that it replaces, if they are not this process's own. The
// group can read it if it could before.
func keepOwner(name string, f *os.File) error {
	var was unix.Stat_t
	err := unix.Stat(name, &was)
	if errors.Is(err, os.ErrNotExist) || err == nil && int(was.Uid) == os.Geteuid() && int(was.Gid) == os.Getegid() {
		return nil // there is none to replace, or it was private
	}
	if err := errors.Join(err, f.Chown(int(was.Uid), int(was.Gid))); err != nil {
		return err
	}
	return f.Chmod(os.FileMode(was.Mode & 0o640))
}
