package runner

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSweeps bounds how often what is left is looked for anew.
const maxSweeps = 100

// name is what bwrap is called in lists of processes, outside and as pid 1 of the
// sandbox: by it the next runner of the node knows what is left of the one before.
func (b *sandbox) name() string { return "belfry-sandbox-" + b.settings.Node }

// sweep kills what the runners before left: the node has one at a time. Commands
// die with their runner, but bwrap sees to that only when the sandbox is made, and
// one whose runner dies just then would go on without anybody.
func (b *sandbox) sweep() {
	for range maxSweeps {
		left := b.left()
		if len(left) == 0 {
			return
		}
		for _, pid := range left { // who had a child meanwhile is found with the next look
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// left lists processes by the name of this node's sandboxes. What has ended has none.
func (b *sandbox) left() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		args, _ := os.ReadFile(file) //nolint:gosec // one of the files that there are
		if name, _, _ := strings.Cut(string(args), "\x00"); name != b.name() {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
