//go:build unix

package config

import (
	"os"
	"syscall"
)

// isOurs reports whether a file is of the user and of the group of this process.
func isOurs(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid() && int(stat.Gid) == os.Getgid()
}
