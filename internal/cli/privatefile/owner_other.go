//go:build !unix

package privatefile

import "os"

// keepOwner does nothing: files have no group here.
func keepOwner(string, *os.File) error { return nil }
