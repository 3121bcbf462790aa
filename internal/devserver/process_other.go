//go:build !unix

package devserver

import "os/exec"

// detach does nothing: process groups and root are a matter of Unix.
func detach(*exec.Cmd, ...string) error { return nil }

// lock does nothing: a second process fails when it starts the database.
func lock(string) error { return nil }
