package command

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/target/command/runner"
)

// RunWith runs a program with a variable that a config may not have, and returns its output.
func (t *Target) RunWith(ctx context.Context, variable string) string {
	o := newOutput(nil)
	t.process.run(ctx, &runner.Spec{
		Program: "/bin/sh", Args: []string{"-c", "exit 0"}, Env: []string{variable}, Timeout: time.Minute,
	}, o)
	o.end()
	text, _ := o.read()
	return text
}
