package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// check runs bwrap itself in a sandbox, because that program certainly exists.
func (b *sandbox) check(ctx context.Context) error {
	if _, known := architectures[runtime.GOARCH]; !known {
		return fmt.Errorf("there is no system call filter for %s; leave command.enabled off on this node",
			runtime.GOARCH)
	}
	if len(tree(os.Getpid())) == 0 || !exists("/proc/thread-self/children") {
		return errors.New("the kernel does not list the children of processes (CONFIG_PROC_CHILDREN), " +
			"so their memory cannot be limited")
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var output []byte
	spec := &Spec{Program: b.settings.Bubblewrap, Args: []string{"--version"}, Timeout: 20 * time.Second}
	got := b.run(ctx, spec, func(part []byte, _ int64) { output = append(output, part...) })
	if got.End == Exited && got.Code == 0 {
		return nil
	}
	detail := got.Detail
	if detail == "" {
		detail = fmt.Sprintf("the trial ended with %s, code %d%s", got.End, got.Code, suffix(string(output)))
	}
	return errors.New(detail)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
