//go:build !unix

package app

// maxFiles returns 0: this system has no such limit, or none that can be asked for.
func maxFiles() uint64 { return 0 }

// ownedByRoot is not asked: there is no root.
func ownedByRoot(string) bool { return true }
