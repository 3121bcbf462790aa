package bench

import (
	"strings"

	"github.com/prometheus/procfs"
)

// userHZ is the unit of CPU time in /proc: the same on all that Linux runs on.
const userHZ = 100

// postmasterOf finds the process that the backend of a connection belongs to; 0
// if PostgreSQL is not on this machine. The same number may be another process
// here, so its title has to name the database.
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

// cpuOf is the seconds of CPU that a process has used; 0 if there is none.
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

// cpuOfServer is the seconds of CPU of a postmaster, its children, and those
// that have ended.
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
		if child, err := proc.Stat(); err == nil && child.PPID == postmaster { // one that has just ended is in the next reading
			sum += child.CPUTime()
		}
	}
	return sum, true
}
