//go:build !linux

package command

import "syscall"

func isolate(int) *syscall.SysProcAttr { return nil }

func hideProcess() error { return nil }
