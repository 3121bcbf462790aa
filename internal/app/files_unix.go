//go:build unix

package app

import "golang.org/x/sys/unix"

// maxFiles returns how many files and connections a process may open. Go raises the soft limit to the hard one.
func maxFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}

// ownedByRoot reports whether a file is there and belongs to root.
func ownedByRoot(name string) bool {
	var info unix.Stat_t
	return unix.Stat(name, &info) == nil && info.Uid == 0
}
