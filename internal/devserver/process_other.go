//go:build !unix

package devserver

import "os/exec"

// detach does nothing: process groups and root are a matter of Unix.
func detach(*exec.Cmd, ...string) error { return nil }
