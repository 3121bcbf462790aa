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
	checkInterval = 100 * time.Millisecond
	// maxInodes limits the files in /tmp, because empty files use memory too.
	maxInodes = 50_000
	// maxTree limits the work of one check, in case the limit on processes fails.
	maxTree = 20_000
)

// supervise checks what all processes of a command use together, and kills it if that is too much.
func (b *sandbox) supervise(first int, ended <-chan struct{}, kill context.CancelCauseFunc) {
	if first == 0 {
		return
	}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		pids := tree(first)
		if len(pids) > b.settings.Processes+1 {
			kill(limitError(fmt.Sprintf("more than %d processes", b.settings.Processes)))
		}
		if memory(pids) > b.settings.Memory {
			kill(limitError(fmt.Sprintf("more than %d MB of memory", b.settings.Memory>>20)))
		}
		for _, dir := range []string{"tmp", "dev/shm"} {
			if b.inodes(first, dir) > maxInodes {
				kill(limitError(fmt.Sprintf("more than %d files in /%s", maxInodes, dir)))
			}
		}
	}
}

// tree returns a process and all its descendants. In a pid namespace, orphans become children of pid 1, so no
// process leaves the tree.
func tree(first int) []int {
	pids := []int{first}
	for i := 0; i < len(pids) && len(pids) < maxTree; i++ {
		tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pids[i]) + "/task/*/children")
		for _, task := range tasks {
			text, _ := os.ReadFile(task) //nolint:gosec // a file in /proc
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// memory returns the memory of processes that is not backed by a file.
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

// inodes returns the number of files in a scratch directory. While bwrap creates the sandbox, its root is
// still that of the machine, whose /tmp is larger and must not count.
func (b *sandbox) inodes(first int, dir string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(filepath.Join("/proc", strconv.Itoa(first), "root", dir), &s) != nil || s.Type != unix.TMPFS_MAGIC ||
		int64(s.Blocks)*s.Bsize > b.settings.Scratch+s.Bsize {
		return 0
	}
	return s.Files - min(s.Ffree, s.Files)
}
