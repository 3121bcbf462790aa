package runner

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSweeps limits how often sweep searches again.
const maxSweeps = 100

// name returns the process name of bwrap, outside and as pid 1 of the sandbox. From it the node's next
// runner knows which processes belong to previous runners.
func (b *sandbox) name() string { return "belfry-sandbox-" + b.settings.Node }

// sweep kills what the node's previous runners left behind. A node has one runner at a time. Commands die with
// their runner, but bwrap ensures that only once the sandbox exists. A command whose runner dies just before
// would run on.
func (b *sandbox) sweep() {
	for range maxSweeps {
		left := b.left()
		if len(left) == 0 {
			return
		}
		for _, pid := range left { // the next search finds children that were started meanwhile
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// left returns the processes with the name of this node's sandboxes. Ended processes have no name.
func (b *sandbox) left() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		args, _ := os.ReadFile(file) //nolint:gosec // a file in /proc
		if name, _, _ := strings.Cut(string(args), "\x00"); name != b.name() {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
