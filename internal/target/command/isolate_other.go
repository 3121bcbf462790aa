//go:build !linux

package command

import "os/exec"

func isolate(o *Options) (*exec.Cmd, error) {
	return exec.Command(o.Executable[0], o.Executable[1:]...), nil //nolint:gosec,noctx // it is this program itself
}

func findBubblewrap(*Options) error { return nil }

func hideProcess() error { return nil }

func hints() []string { return nil }
