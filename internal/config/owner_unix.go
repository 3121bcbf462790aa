//go:build unix

package config

import (
	"os"
	"syscall"
)

// isOurs reports whether the user of this process owns a file.
func isOurs(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
