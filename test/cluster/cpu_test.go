package cluster_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// cpuTime is CPU time by what used it.
type cpuTime struct {
	nodes, database, attacker, victim, machine time.Duration
}

// cpu is the CPU time that was used so far. That of the database is known if it belongs to the test alone. The victim is
// the test itself, with its sink.
func (a *attacker) cpu() (u cpuTime) {
	for _, n := range a.c.nodes {
		u.nodes += cpuOf(n.cmd.Process.Pid, false)
	}
	if d := a.c.db; d != nil {
		u.database = cpuOf(d.server.Process.Pid, true) // with those that have ended
		for _, pid := range d.processes() {
			if pid != d.server.Process.Pid {
				u.database += cpuOf(pid, false)
			}
		}
	}
	for _, h := range a.processes {
		u.attacker += cpuOf(h.cmd.Process.Pid, false)
	}
	u.victim = cpuOf(os.Getpid(), false)
	text, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first)[1:] {
		if i != 3 && i != 4 && i < 8 { // idle, waiting for disks, and what is counted twice
			u.machine += ticks(field)
		}
	}
	return u
}

// ticks is a number of hundredths of a second, as Linux counts CPU time.
func ticks(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(n) * 10 * time.Millisecond
}

// cpuOf is the CPU time of a process, and of its children that have ended.
func cpuOf(pid int, children bool) (sum time.Duration) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ") // the name of the program may contain spaces
	fields := strings.Fields(after)
	if len(fields) < 15 {
		return 0 // it has ended
	}
	last := 13
	if children {
		last = 15
	}
	for _, field := range fields[11:last] {
		sum += ticks(field)
	}
	return sum
}

func (u cpuTime) minus(v cpuTime) cpuTime {
	return cpuTime{
		u.nodes - v.nodes, u.database - v.database, u.attacker - v.attacker, u.victim - v.victim, u.machine - v.machine,
	}
}

// String is seconds of CPU time of nodes, database, attacker, victim, and other programs of the machine.
func (u cpuTime) String() string {
	others := u.machine - u.nodes - u.database - u.attacker - u.victim
	return fmt.Sprintf("%7.1f %7.1f %7.1f %7.1f %7.1f", u.nodes.Seconds(), u.database.Seconds(), u.attacker.Seconds(),
		u.victim.Seconds(), others.Seconds())
}

// resetStatements and logStatements print what the database spent most time with in between.
func (c *cluster) resetStatements() {
	c.t.Helper()
	if c.on != nil {
		_, err := c.pool.Exec(c.t.Context(), `SELECT pg_stat_statements_reset()`)
		require.NoError(c.t, err)
	}
}

func (c *cluster) logStatements(n int) {
	c.t.Helper()
	if c.on == nil || n == 0 {
		return
	}
	rows, err := c.pool.Query(c.t.Context(), `
SELECT calls, total_exec_time / 1000, total_exec_time / calls, left(regexp_replace(query, '\s+', ' ', 'g'), 160)
FROM pg_stat_statements ORDER BY 2 DESC LIMIT $1`, n)
	require.NoError(c.t, err)
	var calls int
	var seconds, each float64
	var query string
	_, err = pgx.ForEachRow(rows, []any{&calls, &seconds, &each, &query}, func() error {
		c.t.Logf("%8d calls %7.2f s %9.3f ms each  %s", calls, seconds, each, query)
		return nil
	})
	require.NoError(c.t, err)
}
