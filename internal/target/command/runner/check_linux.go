package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
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
	b.sweep()
	bwrap, err := exec.LookPath(b.settings.Bubblewrap)
	if err != nil {
		bwrap = b.settings.Bubblewrap // run reports the error
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var output []byte
	spec := &Spec{Program: bwrap, Args: []string{"--version"}, Timeout: 20 * time.Second}
	got := b.run(ctx, spec, func(part []byte, _ int64) { output = append(output, part...) })
	if got.End == Exited && got.Code == 0 {
		return nil
	}
	detail := got.Detail
	if detail == "" {
		detail = fmt.Sprintf("the trial ended with %s, code %d%s", got.End, got.Code, suffix(string(output)))
	}
	return errors.New(strings.Join(append([]string{detail}, hints()...), "; "))
}

// hints returns why this machine may forbid namespaces to unprivileged users.
func hints() (out []string) {
	if os.Geteuid() == 0 {
		return nil
	}
	for _, h := range []struct{ file, forbids, hint string }{
		{
			"/proc/sys/user/max_user_namespaces", "0",
			"user namespaces are forbidden here: set the sysctl user.max_user_namespaces to 10000",
		},
		{
			"/proc/sys/kernel/unprivileged_userns_clone", "0",
			"user namespaces are forbidden to unprivileged users: set the sysctl kernel.unprivileged_userns_clone to 1",
		},
		{
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts user namespaces: give bwrap a profile with userns, " +
				"or set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0",
		},
	} {
		text, err := os.ReadFile(h.file)
		if err == nil && strings.TrimSpace(string(text)) == h.forbids {
			out = append(out, h.hint)
		}
	}
	if exists("/.dockerenv") || exists("/run/.containerenv") {
		out = append(out, "in a container its seccomp profile must allow unshare, mount and pivot_root, "+
			"or commands run as containers (command.container_socket)")
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
