//go:build !unix

package main

import "os/exec"

func ownedByOther(*exec.Cmd, ...string) error { return nil }
