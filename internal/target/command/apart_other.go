//go:build !linux

package command

import "syscall"

func apart(int) *syscall.SysProcAttr { return nil }

func hideProcess() error { return nil }
