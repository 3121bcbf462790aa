package bench

import (
	"strings"

	"github.com/prometheus/procfs"
)

// userHZ is the unit of CPU time in /proc, the same on all architectures.
const userHZ = 100

// postmasterOf finds the server process of a backend. It returns 0 if PostgreSQL is not on this machine. The process id
// of the backend may be another process here, so its title must contain the name of the database.
func postmasterOf(backend int, database string) int {
	proc, err := procfs.NewProc(backend)
	if err != nil {
		return 0
	}
	title, err := proc.CmdLine()
	if err != nil || !strings.Contains(strings.Join(title, " "), database) {
		return 0
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0
	}
	return stat.PPID
}

// cpuOf is the CPU time of a process in seconds, 0 if it does not exist.
func cpuOf(pid int) float64 {
	stat, _ := statOf(pid)
	return stat.CPUTime()
}

func statOf(pid int) (procfs.ProcStat, bool) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, false
	}
	stat, err := proc.Stat()
	return stat, err == nil
}

// cpuOfServer is the CPU time in seconds of a server: the postmaster, its children, and children that have ended.
func cpuOfServer(postmaster int) (float64, bool) {
	stat, ok := statOf(postmaster)
	if !ok {
		return 0, false
	}
	sum := stat.CPUTime() + float64(stat.CUTime+stat.CSTime)/userHZ
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, false
	}
	for _, proc := range all {
		// A child that ends just now is counted by the next reading.
		if child, err := proc.Stat(); err == nil && child.PPID == postmaster {
			sum += child.CPUTime()
		}
	}
	return sum, true
}
