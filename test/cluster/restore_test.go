package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// backups is a PostgreSQL server whose WAL pgBackRest archives, as the guide says.
type backups struct {
	*database
	config, page string
}

func newBackups(t *testing.T) *backups {
	t.Helper()
	d := emptyDatabase(t)
	dir := filepath.Dir(d.dir)
	page, err := os.ReadFile("../../docs/guide/backup.md")
	require.NoError(t, err)
	b := &backups{database: d, config: filepath.Join(dir, "pgbackrest.conf"), page: string(page)}
	text := regexp.MustCompile("(?s)```ini pgbackrest\n(.*?)```").FindStringSubmatch(b.page)[1]
	text = strings.NewReplacer("/var/lib/pgbackrest", dir+"/repo", "/var/lib/postgresql/15/main", d.dir,
		"[belfry]", fmt.Sprintf("log-path=%s\nlock-path=%[1]s/lock\nspool-path=%[1]s/spool\n[belfry]\npg1-port=%d\n"+
			"pg1-socket-path=%[1]s\npg1-user=belfry", dir, d.port)).Replace(text)
	require.NoError(t, os.WriteFile(b.config, []byte(text), 0o644)) // for the user of PostgreSQL
	d.settings = []string{
		"archive_mode=on", "unix_socket_directories=" + dir,
		"archive_command=" + b.line(`pgbackrest .*archive-push %p`),
	}
	d.create(t)
	return b
}

// line is the command of the guide that matches, with another configuration.
func (b *backups) line(pattern string) string {
	found := regexp.MustCompile(pattern).FindString(b.page)
	return strings.Replace(found, "pgbackrest", "pgbackrest --config="+b.config, 1)
}

// pgbackrest runs a command of the guide as the user of the server, with another time.
func (b *backups) pgbackrest(t *testing.T, pattern string, target time.Time) {
	t.Helper()
	line := b.line(pattern)
	require.NotEmpty(t, line)
	line = strings.ReplaceAll(line, "2026-03-08 14:00:00+00", target.UTC().Format("2006-01-02 15:04:05.999999+00"))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.user}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}

// TestRestore restores the database to an earlier time while the sink keeps its receipts. What was delivered in the
// forgotten time is not delivered again, unless the operator says so.
func TestRestore(t *testing.T) {
	if os.Getenv("BELFRY_RESTORE") == "" {
		t.Skip("BELFRY_RESTORE is not set; run: make test-restore")
	}
	if _, err := exec.LookPath("pgbackrest"); err != nil {
		t.Skip("pgbackrest is not installed; run: dev/need --install pgbackrest")
	}
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		r := newRestored(t)
		r.accept("skip")
		r.run(5 * time.Second)
		for _, x := range r.c.sink.since(r.stopped) {
			require.False(t, x.due.Before(r.until), "%s was delivered again, or is not of after the restore", x.run)
			require.Equal(t, "1", x.attempt)
		}
		t.Logf("restore: skip: forgotten=%d again=0 lost=%d", r.forgotten(), r.lost())
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		r := newRestored(t)
		r.accept("run")
		r.run(5 * time.Second)
		before, after := map[string][]receipt{}, map[string][]receipt{}
		for _, x := range r.c.sink.all() {
			if x.received.Before(r.stopped) {
				before[x.run] = append(before[x.run], x)
			} else {
				after[x.run] = append(after[x.run], x)
			}
		}
		again := 0
		for _, j := range r.c.jobs {
			for due := r.from.Truncate(time.Second).Add(time.Second); due.Before(r.until); due = due.Add(time.Second) {
				id := job.FormatRunID(job.Key{Job: j.ID, DueAt: due})
				require.Len(t, after[id], 1, "%s runs once more, with the same key", id)
				require.Equal(t, "251", after[id][0].attempt)
				again += len(before[id])
			}
		}
		for id, all := range after {
			for _, x := range all {
				require.Equal(t, x.due.Before(r.until), x.attempt != "1", "%s: attempt %s", id, x.attempt)
			}
		}
		require.Positive(t, again, "nothing was forgotten")
		t.Logf("restore: run: forgotten=%d again=%d lost=%d", r.forgotten(), again, r.lost())
	})
}

// restored is a cluster whose database was restored.
type restored struct {
	c           *cluster
	stopped     time.Time // when its nodes were killed
	from, until time.Time // of the restore, as nodes noticed it
	mark        access.AuditMark
}

// newRestored runs jobs, takes a backup, runs on for a while, and restores the database to a time between.
func newRestored(t *testing.T) *restored {
	t.Helper()
	b := newBackups(t)
	c := newCluster(t, setup{nodes: 0, slow: immediately, on: b.database})
	b.pgbackrest(t, `pgbackrest .* stanza-create`, time.Time{})
	r := &restored{c: c}
	for range 2 {
		c.nodes = append(c.nodes, c.start())
	}
	c.create(16, time.Hour)
	b.pgbackrest(t, `pgbackrest .*--type=full backup`, time.Time{})
	r.run(3 * time.Second)
	_, err := c.store.ConfirmClock(t.Context()) // an entry of the audit log
	require.NoError(t, err)
	r.mark = r.verify(access.AuditMark{})
	target := c.now()
	r.run(10 * time.Second)
	_, err = c.store.ConfirmClock(t.Context())
	require.NoError(t, err)
	forgotten := r.verify(r.mark)
	c.stop()
	r.stopped = clock.Now()

	var segment string
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT pg_walfile_name(pg_switch_wal())`).Scan(&segment))
	r.await(`SELECT last_archived_wal >= $1 FROM pg_stat_archiver`, segment)
	require.NoError(t, b.kill(true))
	require.NoError(t, os.Remove(filepath.Join(b.dir, "postmaster.pid")))
	b.pgbackrest(t, `pgbackrest .*--type=time .*restore`, target)
	_, err = b.start(t.Context())
	require.NoError(t, err)
	r.await(`SELECT NOT pg_is_in_recovery()`)
	r.await(`SELECT trusted_at < now() - interval '61 s' FROM cluster`) // or it would be a failover
	for range 2 {
		c.nodes = append(c.nodes, c.start())
	}
	r.await(`SELECT held_until > '-infinity' FROM cluster`)
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT restored_from, restored_until FROM cluster`).
		Scan(&r.from, &r.until))
	require.WithinDuration(t, target, r.from, 5*time.Second)
	r.run(5 * time.Second) // new occurrences do not wait
	for _, x := range c.sink.since(r.stopped) {
		require.False(t, x.due.Before(r.until), "%s is held", x.run)
	}
	require.NotEmpty(t, c.sink.since(r.until))
	var broken *access.AuditBroken
	_, _, err = c.store.VerifyAudit(t.Context(), access.DefaultNamespace, access.AuditCheck{AuditMark: forgotten}, 100)
	require.ErrorAs(t, err, &broken, "the forgotten entry is not there")
	r.verify(r.mark)
	_, _, err = c.store.VerifyAudit(t.Context(), access.DefaultNamespace,
		access.AuditCheck{AuditMark: access.AuditMark{Seq: r.mark.Seq, Hash: forgotten.Hash}}, 100)
	require.ErrorAs(t, err, &broken, "the chains have forked")
	return r
}

// await waits until a query returns true.
func (r *restored) await(sql string, args ...any) {
	r.c.t.Helper()
	require.NoError(r.c.t, until(r.c.t.Context(), func() bool {
		<-time.After(100 * time.Millisecond)
		var ok bool
		return r.c.pool.QueryRow(r.c.t.Context(), sql, args...).Scan(&ok) == nil && ok
	}))
}

// run waits until all that is due in the next time has been delivered and noted, unless it is held.
func (r *restored) run(d time.Duration) {
	r.c.t.Helper()
	r.c.end = r.c.now().Add(d).Truncate(time.Second)
	r.await(`
SELECT now() > $1 AND NOT EXISTS (SELECT FROM cursor WHERE next_due_at < $1) AND NOT EXISTS (
    SELECT FROM run, cluster WHERE due_at < $1 AND due_at >= held_until)`, r.c.end)
}

// accept runs the command of an operator, until nodes have done what has to come first.
func (r *restored) accept(occurrences string) {
	r.c.t.Helper()
	command := func(args ...string) (string, error) {
		cmd := exec.Command(binary, append([]string{"restore"}, args...)...)
		cmd.Env = append(os.Environ(), "BELFRY_DATABASE_URL="+r.c.url)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := command("status")
	require.NoError(r.c.t, err, text)
	require.Contains(r.c.t, text, "--occurrences "+occurrences)
	list, err := command("accept")
	require.NoError(r.c.t, err, list)
	require.Contains(r.c.t, list, "job-0")
	require.NoError(r.c.t, until(r.c.t.Context(), func() bool {
		<-time.After(time.Second)
		text, err = command("accept", "--occurrences", occurrences)
		return err == nil || !strings.Contains(text, "try again")
	}))
	require.NoError(r.c.t, err, text)
	require.Contains(r.c.t, text, "accepted: ")
}

// verify checks the chain of the audit log from a mark on.
func (r *restored) verify(from access.AuditMark) access.AuditMark {
	r.c.t.Helper()
	check := access.AuditCheck{AuditMark: from}
	good, more, err := r.c.store.VerifyAudit(r.c.t.Context(), access.DefaultNamespace, check, 1000)
	require.NoError(r.c.t, err)
	require.False(r.c.t, more)
	return good.AuditMark
}

// forgotten counts the deliveries that the restored database does not know.
func (r *restored) forgotten() (n int) {
	for _, x := range r.c.sink.all() {
		if !x.due.Before(r.from) && x.received.Before(r.stopped) {
			n++
		}
	}
	return n
}

// lost counts the occurrences without an entry in the ledger. There are none.
func (r *restored) lost() int64 {
	r.c.t.Helper()
	r.verify(r.mark)
	a := r.c.audit()
	require.Zero(r.c.t, a.Wrong()+a.Duplicates+a.Unreadable, "%+v", a.Findings[:min(len(a.Findings), 5)])
	require.NotZero(r.c.t, a.Expected)
	return a.Missing
}
