package runner

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// args returns the arguments of bwrap. It applies them in order.
func (b *sandbox) args(s *Spec) []string {
	a := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--uid", nobody, "--gid", nobody, "--cap-drop", "ALL",
		"--hostname", "belfry", "--new-session", "--die-with-parent",
		"--json-status-fd", strconv.Itoa(statusFD), "--block-fd", strconv.Itoa(blockFD),
		"--seccomp", strconv.Itoa(seccompFD),
	}
	if s.Network {
		a = append(a, "--share-net")
	}
	scratch := strconv.FormatInt(b.settings.Scratch, 10)
	a = append(a,
		"--proc", "/proc", "--dev", "/dev",
		"--perms", "1777", "--size", scratch, "--tmpfs", "/tmp",
		"--perms", "1777", "--size", scratch, "--tmpfs", "/dev/shm",
	)
	for _, path := range slices.Concat(b.settings.Paths, of(s.Namespace, b.settings.Programs), []string{s.Program}) {
		a = append(a, "--ro-bind-try", path, path)
	}
	if s.Network {
		for _, path := range resolverFiles {
			a = append(a, "--ro-bind-try", path, path)
		}
	}
	a = append(a, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp")
	common := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}
	for _, variable := range slices.Concat(common, s.Env) {
		name, value, _ := strings.Cut(variable, "=")
		a = append(a, "--setenv", name, value)
	}
	return a
}

// limits returns the rlimits of each process.
func (b *sandbox) limits(timeout time.Duration) map[int]uint64 {
	return map[int]uint64{
		unix.RLIMIT_DATA:   uint64(b.settings.Memory),
		unix.RLIMIT_FSIZE:  uint64(b.settings.Scratch),
		unix.RLIMIT_NOFILE: maxFiles,
		unix.RLIMIT_CORE:   0,
		// pid 1 of the sandbox, which belongs to bwrap, counts too.
		unix.RLIMIT_NPROC:   uint64(b.settings.Processes) + 1,
		unix.RLIMIT_MEMLOCK: 64 << 10,
		// The CPU time of one core during the timeout.
		unix.RLIMIT_CPU: uint64(timeout/time.Second) + 1,
	}
}
