package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lookPause = 100 * time.Millisecond
	// maxInodes of /tmp: an empty file has no bytes, and takes memory all the same.
	maxInodes = 50_000
	// maxTree bounds one look, should the limit on processes not hold.
	maxTree = 20_000
)

// supervise looks at what all processes of a command have together, and kills
// it if that is too much.
func (b *sandbox) supervise(first int, ended <-chan struct{}, kill context.CancelCauseFunc) {
	if first == 0 {
		return
	}
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		pids := tree(first)
		if len(pids) > b.settings.Processes+1 {
			kill(excessError(fmt.Sprintf("more than %d processes", b.settings.Processes)))
		}
		if memory(pids) > b.settings.Memory {
			kill(excessError(fmt.Sprintf("more than %d MB of memory", b.settings.Memory>>20)))
		}
		for _, dir := range []string{"tmp", "dev/shm"} {
			if b.inodes(first, dir) > maxInodes {
				kill(excessError(fmt.Sprintf("more than %d files in /%s", maxInodes, dir)))
			}
		}
	}
}

// tree lists a process and all below it. Whoever loses its parent in a pid
// namespace becomes a child of pid 1, so nobody leaves the tree.
func tree(first int) []int {
	pids := []int{first}
	for i := 0; i < len(pids) && len(pids) < maxTree; i++ {
		tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pids[i]) + "/task/*/children")
		for _, task := range tasks {
			text, _ := os.ReadFile(task) //nolint:gosec // of a process that is ours
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// memory is what processes have that cannot be read from a file again.
func memory(pids []int) (total int64) {
	for _, pid := range pids {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if name != "RssAnon" && name != "RssShmem" {
				continue
			}
			kB, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			total += kB << 10
		}
	}
	return total
}

// inodes are the files in a directory of scratch space. While the sandbox is being
// made its root is still the machine's, whose /tmp is larger.
func (b *sandbox) inodes(first int, dir string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(filepath.Join("/proc", strconv.Itoa(first), "root", dir), &s) != nil || s.Type != unix.TMPFS_MAGIC ||
		int64(s.Blocks)*s.Bsize > b.settings.Scratch+s.Bsize {
		return 0
	}
	return s.Files - min(s.Ffree, s.Files)
}
