//go:build !linux

package runner

import (
	"context"
	"errors"
)

type sandbox struct{}

func newSandbox(*Settings) isolation { return sandbox{} }

var errLinux = errors.New("commands need the sandbox of Linux; leave command.enabled off on this node")

func (sandbox) check(context.Context) error { return errLinux }

func (sandbox) run(context.Context, *Spec, outputFunc) Result {
	return Result{End: NotStarted, Detail: errLinux.Error()}
}
