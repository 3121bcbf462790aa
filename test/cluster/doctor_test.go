package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/seal"
)

// patient is a cluster of one node on a PostgreSQL of its own, to which faults are done.
type patient struct {
	*cluster
	env  []string // of doctor
	args []string
	as   string // URL of the database for doctor

	hints map[string]string // what doctor said last, by check
}

// doctorFault is done to a healthy cluster. Doctor must name the check, with the status, and nothing else.
type doctorFault struct {
	check  string
	status doctor.Status
	// do makes the fault, and returns how to undo it. Until it is visible, doctor is asked again.
	do func(*patient) (undo func())
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{cluster: newCluster(t, setup{nodes: 1, clock: true, api: true, named: true})}
	p.as = p.url
	p.env = []string{"BELFRY_LISTEN=" + p.nodes[0].listen}
	return p
}

// doctor runs the command and returns what is not healthy, by check.
func (p *patient) doctor() (map[string]doctor.Status, int) {
	p.t.Helper()
	args := append([]string{"doctor", "-o", "json", "--database-url", p.as}, p.args...)
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), p.env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // the exit code follows
	var results []doctor.Result
	require.NoError(p.t, json.Unmarshal(out, &results), "%s\n%s", out, stderr.String())
	require.NotEmpty(p.t, results)
	bad := map[string]doctor.Status{}
	p.hints = map[string]string{}
	for _, r := range results {
		if r.Status == doctor.Warning || r.Status == doctor.Failure {
			bad[r.Check], p.hints[r.Check] = r.Status, r.Hint
			require.NotEmpty(p.t, r.Hint, "%s says what is wrong, but not what to do", r.Check)
			p.t.Logf("%s: %s (%s)", r.Check, r.Message, r.Hint)
		}
	}
	return bad, cmd.ProcessState.ExitCode()
}

// awaitVerdict asks doctor until it finds exactly what is wanted.
func (p *patient) awaitVerdict(want map[string]doctor.Status) (code int) {
	p.t.Helper()
	var got map[string]doctor.Status
	ctx, cancel := context.WithTimeout(p.t.Context(), allowed(10*time.Second))
	defer cancel()
	err := until(ctx, func() bool {
		got, code = p.doctor()
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
	require.NoError(p.t, err, "want %v, got %v", want, got)
	return code
}

func (p *patient) sql(query string, args ...any) {
	p.t.Helper()
	_, err := p.pool.Exec(p.t.Context(), query, args...)
	require.NoError(p.t, err)
}

// setting changes a setting of the server until undo.
func (p *patient) setting(name, value string) (undo func()) {
	p.sql(`ALTER SYSTEM SET ` + name + ` = '` + value + `'`)
	p.sql(`SELECT pg_reload_conf()`)
	return func() {
		p.sql(`ALTER SYSTEM RESET ` + name)
		p.sql(`SELECT pg_reload_conf()`)
	}
}

// second starts another node with other settings.
func (p *patient) second(env ...string) (undo func()) {
	before := p.cluster.env
	p.cluster.env = env
	n := p.start()
	p.cluster.env = before
	return func() { require.NoError(p.t, n.end(syscall.SIGTERM)) }
}

// asked sets the environment of doctor until undo.
func (p *patient) asked(env ...string) (undo func()) {
	before := p.env
	p.env = append(append([]string{}, before...), env...)
	return func() { p.env = before }
}

// TestDoctor does each fault to a real node or PostgreSQL. Doctor is clean before, names the fault and nothing else,
// and is clean again after.
func TestDoctor(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	require.Zero(t, p.awaitVerdict(map[string]doctor.Status{}))
	for _, f := range doctorFaults {
		t.Run(f.check, func(t *testing.T) {
			p.t = t
			undo := f.do(p)
			code := p.awaitVerdict(map[string]doctor.Status{f.check: f.status})
			want := 0
			if f.status == doctor.Failure {
				want = 2
			}
			require.Equal(t, want, code)
			undo()
			require.Zero(t, p.awaitVerdict(map[string]doctor.Status{}))
		})
		if t.Failed() {
			return
		}
	}
	p.t = t
	undo := tooManyCheckpoints(p)
	p.args = []string{"--strict"}
	require.Equal(t, 1, p.awaitVerdict(map[string]doctor.Status{"checkpoints": doctor.Warning}))
	undo()
}

// dropped removes a part of the schema. Undo runs the command that doctor prints.
func (p *patient) dropped(statement string) (undo func()) {
	p.sql(statement)
	return func() {
		_, command, _ := strings.Cut(p.hints["objects"], "run: ")
		p.sql(command)
	}
}

func tooManyCheckpoints(p *patient) func() {
	for range 25 {
		p.sql(`CHECKPOINT`)
	}
	return func() { p.sql(`SELECT pg_stat_reset_shared('bgwriter')`) }
}

var doctorFaults = []doctorFault{
	{"connection", doctor.Failure, func(p *patient) func() {
		before := p.as
		p.as = fmt.Sprintf("postgres://belfry_server@127.0.0.1:%d/belfry", freePort(p.t))
		return func() { p.as = before }
	}},
	{"schema", doctor.Failure, func(p *patient) func() {
		// The newest migration is not applied, by its own table.
		p.sql(`UPDATE belfry_migration SET version_id = -version_id WHERE version_id = (
		           SELECT max(version_id) FROM belfry_migration)`)
		return func() { p.sql(`UPDATE belfry_migration SET version_id = -version_id WHERE version_id < 0`) }
	}},
	{"schema", doctor.Failure, func(p *patient) func() {
		// A column that doctor reads is not there yet.
		p.sql(`UPDATE belfry_migration SET version_id = -version_id WHERE version_id = (
		           SELECT max(version_id) FROM belfry_migration)`)
		p.sql(`ALTER TABLE audit_finding RENAME kind TO later`)
		return func() {
			p.sql(`ALTER TABLE audit_finding RENAME later TO kind`)
			p.sql(`UPDATE belfry_migration SET version_id = -version_id WHERE version_id < 0`)
		}
	}},
	{"objects", doctor.Warning, func(p *patient) func() { return p.dropped(`DROP INDEX run_needs_sweep, run_feed`) }},
	{"objects", doctor.Failure, func(p *patient) func() { return p.dropped(`DROP POLICY worker ON run`) }},
	{"objects", doctor.Failure, func(p *patient) func() {
		return p.dropped(`ALTER TABLE run DISABLE ROW LEVEL SECURITY`)
	}},
	{"timeouts", doctor.Warning, func(p *patient) func() {
		p.sql(`ALTER ROLE belfry_server SET statement_timeout = '100ms'`)
		p.sql(`ALTER DATABASE postgres SET lock_timeout = '100ms'`)
		return func() {
			p.sql(`ALTER ROLE belfry_server RESET statement_timeout`)
			p.sql(`ALTER DATABASE postgres RESET lock_timeout`)
		}
	}},
	{"dead-rows", doctor.Warning, func(p *patient) func() { return p.setting("autovacuum", "off") }},
	{"dead-rows", doctor.Warning, func(p *patient) func() {
		p.sql(`ALTER TABLE run SET (autovacuum_enabled = off)`)
		return func() { p.sql(`ALTER TABLE run RESET (autovacuum_enabled)`) }
	}},
	{"role", doctor.Failure, func(p *patient) func() {
		before := p.as
		p.as = p.db.url() // the owner
		return func() { p.as = before }
	}},
	{"connections", doctor.Failure, func(p *patient) func() { return p.second("BELFRY_API_CONNECTIONS=500") }},
	{"pooler", doctor.Warning, func(p *patient) func() {
		if _, err := os.Stat(pgbouncer); err != nil {
			p.t.Skip("run: dev/services up pgbouncer")
		}
		before := p.as
		p.as = throughPgBouncer(p.t, before)
		return func() {
			p.sql(`ALTER ROLE belfry_server SET statement_timeout = '60s'`)
			p.sql(`ALTER ROLE belfry_server SET idle_in_transaction_session_timeout = '5s'`)
			p.sql(`ALTER ROLE belfry_server SET tcp_user_timeout = '10s'`)
			p.as = throughPgBouncer(p.t, before) // one whose connections have them
			p.awaitVerdict(map[string]doctor.Status{})
			p.sql(`ALTER ROLE belfry_server RESET ALL`)
			p.as = before
		}
	}},
	{"durability", doctor.Failure, func(p *patient) func() {
		p.sql(`ALTER ROLE belfry_server SET synchronous_commit = off`)
		return func() { p.sql(`ALTER ROLE belfry_server RESET synchronous_commit`) }
	}},
	{"durability", doctor.Failure, func(p *patient) func() { return p.setting("full_page_writes", "off") }},
	{"standbys", doctor.Failure, func(p *patient) func() { return p.setting("synchronous_standby_names", "nobody") }},
	{"standbys", doctor.Warning, func(p *patient) func() {
		dir, err := os.MkdirTemp("", "belfry-wal-") // not t.TempDir, which the user of the receiver cannot enter
		require.NoError(p.t, err)
		if p.db.user != nil {
			require.NoError(p.t, os.Chown(dir, int(p.db.user.Uid), int(p.db.user.Gid)))
		}
		server, err := filepath.EvalSymlinks(filepath.Join(p.db.bin, "postgres"))
		require.NoError(p.t, err)
		receiver := p.db.command("pg_receivewal", "-D", dir, "-d", p.db.url(), "--no-loop")
		receiver.Path = filepath.Join(filepath.Dir(server), "pg_receivewal")
		require.NoError(p.t, receiver.Start())
		return func() {
			require.NoError(p.t, receiver.Process.Kill())
			_ = receiver.Wait() // "signal: killed"
			_ = os.RemoveAll(dir)
		}
	}},
	{"failovers", doctor.Warning, func(p *patient) func() {
		p.sql(`INSERT INTO failover (timeline, timeline_before, noticed_at, synchronous, lost)
		       VALUES (2, 1, now(), false, false)`)
		return func() { p.sql(`DELETE FROM failover`) }
	}},
	{"backup", doctor.Warning, func(p *patient) func() {
		p.sql(`UPDATE cluster SET backed_up_at = now() - interval '27 h'`)
		return func() { p.sql(`UPDATE cluster SET backed_up_at = now()`) }
	}},
	{"restore", doctor.Warning, func(p *patient) func() {
		p.sql(`UPDATE cluster SET held_until = '2020-01-01Z'`)
		return func() { p.sql(`UPDATE cluster SET held_until = '-infinity'`) }
	}},
	{"archive-store", doctor.Failure, func(p *patient) func() {
		return p.asked("BELFRY_ARCHIVE_URL=file:///dev/null")
	}},
	{"archive-days", doctor.Failure, func(p *patient) func() {
		p.sql(`UPDATE archive_setting SET required = true`) // otherwise a node drops the days
		for _, day := range []string{"2020-01-01", "2020-01-02", "2020-01-03"} {
			p.sql(fmt.Sprintf(`CREATE TABLE run_history_%s PARTITION OF run_history FOR VALUES FROM ('%sZ') TO ('%s 24:00Z')`,
				strings.ReplaceAll(day, "-", ""), day, day))
		}
		return func() {
			p.sql(`DROP TABLE run_history_20200101, run_history_20200102, run_history_20200103`)
			p.sql(`UPDATE archive_setting SET required = false`)
		}
	}},
	{"replication-slots", doctor.Warning, func(p *patient) func() {
		conn, err := pgx.Connect(p.t.Context(), p.db.url())
		require.NoError(p.t, err)
		defer func() { require.NoError(p.t, conn.Close(p.t.Context())) }()
		for _, q := range []string{
			`SET wal_init_zero = off`, `SELECT pg_create_physical_replication_slot('forgotten', true)`,
		} {
			_, err := conn.Exec(p.t.Context(), q)
			require.NoError(p.t, err)
		}
		for range 70 { // each switch goes to the next 16 MB
			_, err := conn.Exec(p.t.Context(), `SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()`)
			require.NoError(p.t, err)
		}
		return func() { p.sql(`SELECT pg_drop_replication_slot('forgotten')`) }
	}},
	{"open-transactions", doctor.Warning, func(p *patient) func() {
		conn, err := pgx.Connect(p.t.Context(), p.url)
		require.NoError(p.t, err)
		_, err = conn.Exec(p.t.Context(), `BEGIN; SELECT 1`)
		require.NoError(p.t, err)
		p.args = []string{"--max-transaction", "3s"}
		return func() {
			p.args = nil
			require.NoError(p.t, conn.Close(p.t.Context()))
		}
	}},
	{"checkpoints", doctor.Warning, tooManyCheckpoints},
	{"dead-rows", doctor.Warning, func(p *patient) func() {
		p.sql(`ALTER TABLE run SET (autovacuum_enabled = off)`)
		p.sql(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin,
		                        queue_id, admit, needs_sweep)
		       SELECT 0, 0, 1, gen_random_uuid(), now() + interval '1 day', now() + interval '1 day', 0, 0, 5, 0, 1, 0, false
		       FROM generate_series(1, 120000)`)
		p.sql(`DELETE FROM run WHERE due_at > now() + interval '23 hours'`)
		return func() {
			p.sql(`VACUUM run`)
			p.sql(`ALTER TABLE run RESET (autovacuum_enabled)`)
		}
	}},
	{"name-search", doctor.Warning, func(p *patient) func() {
		var definition string
		require.NoError(p.t, p.pool.QueryRow(p.t.Context(),
			`SELECT pg_get_indexdef('job_name_trigram'::regclass)`).Scan(&definition))
		p.sql(`DROP INDEX job_name_trigram`)
		return func() { p.sql(definition) }
	}},
	{"history-days", doctor.Failure, func(p *patient) func() {
		p.sql(`CREATE TABLE stray PARTITION OF run_history DEFAULT`)
		return func() { p.sql(`DROP TABLE stray`) }
	}},
	{"clock", doctor.Failure, func(p *patient) func() {
		p.db.setClock(p.t, time.Hour)
		return func() { p.db.setClock(p.t, 0) }
	}},
	{"time-zones", doctor.Warning, func(p *patient) func() {
		dir := p.t.TempDir()
		require.NoError(p.t, os.Mkdir(filepath.Join(dir, "Europe"), 0o700))
		tokyo, err := os.ReadFile("/usr/share/zoneinfo/Asia/Tokyo")
		require.NoError(p.t, err)
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, "Europe", "Berlin"), tokyo, 0o600))
		return p.second("ZONEINFO=" + dir)
	}},
	{"versions", doctor.Warning, func(p *patient) func() {
		// There is one program here, so the row of the second node says what an older one would.
		undo := p.second()
		require.NoError(p.t, until(p.t.Context(), func() bool {
			tag, err := p.pool.Exec(p.t.Context(), `UPDATE session SET info = info || '{"version": "v0.0.1"}'
				WHERE name = $1`, fmt.Sprintf("node-%d", p.made-1))
			return err == nil && tag.RowsAffected() == 1
		}))
		return undo
	}},
	{"settings", doctor.Warning, func(p *patient) func() { return p.second("BELFRY_KEEP_HISTORY=7d") }},
	{"keysets", doctor.Failure, func(p *patient) func() {
		keys, err := seal.New()
		require.NoError(p.t, err)
		text, err := keys.Text()
		require.NoError(p.t, err)
		return p.second("BELFRY_SECRETS_KEYSET=" + text)
	}},
	{"partitions", doctor.Failure, func(p *patient) func() {
		// Nodes may not take partitions, as after a wrong GRANT. They may renew their sessions.
		p.sql(`REVOKE UPDATE ON partition FROM belfry_engine`)
		p.sql(`GRANT UPDATE (missed_from, missed_until) ON partition TO belfry_engine`)
		p.sql(`UPDATE partition SET owner = NULL`)
		return func() { p.sql(`GRANT UPDATE ON partition TO belfry_engine`) }
	}},
	{"schedules", doctor.Failure, func(p *patient) func() {
		p.create(1, time.Hour)
		p.sql(`UPDATE cursor SET schedule = '{"every": "never"}', next_due_at = now()`)
		return func() {
			p.sql(`DELETE FROM run`)
			p.sql(`DELETE FROM job`)
			p.sql(`DELETE FROM cursor`)
		}
	}},
	{"audit", doctor.Failure, func(p *patient) func() {
		// A run that has ended is removed from the ledger. The audit finds that, and a backfill closes the finding.
		p.create(1, time.Hour)
		require.NoError(p.t, until(p.t.Context(), func() bool {
			tag, err := p.pool.Exec(p.t.Context(), `DELETE FROM run_history WHERE job_id = $1 AND due_at = (
				SELECT min(due_at) FROM run_history WHERE job_id = $1)`, p.jobs[len(p.jobs)-1].ID)
			return err == nil && tag.RowsAffected() == 1
		}))
		audit := func(args ...string) string {
			args = append([]string{"audit", "ledger", "--database-url", p.url}, args...)
			out, err := exec.Command(binary, args...).CombinedOutput()
			require.Error(p.t, err, "%s", out)
			return string(out)
		}
		require.Contains(p.t, audit(), "1  missing")
		return func() {
			require.Contains(p.t, audit("--backfill"), "run now: 1 missing occurrence")
			require.Zero(p.t, p.awaitVerdict(map[string]doctor.Status{}))
			p.sql(`DELETE FROM audit_finding`) // before the backfill, which may not have ended
			p.sql(`DELETE FROM job`)
			p.sql(`DELETE FROM cursor`)
			p.sql(`DELETE FROM run`)
		}
	}},
	{"files", doctor.Warning, func(p *patient) func() { return p.second("BELFRY_SLOTS=100000") }},
	{"certificate", doctor.Failure, func(p *patient) func() { return p.certificate(-time.Hour) }},
	{"certificate", doctor.Warning, func(p *patient) func() { return p.certificate(24 * time.Hour) }},
	{"api", doctor.Failure, func(p *patient) func() {
		return p.asked(fmt.Sprintf("BELFRY_API_URL=http://127.0.0.1:%d", freePort(p.t)))
	}},
	{"commands", doctor.Failure, func(p *patient) func() {
		return p.asked("BELFRY_COMMAND_ENABLED=true", "BELFRY_COMMAND_PROGRAMS=/usr/bin",
			"BELFRY_COMMAND_BUBBLEWRAP=/no/such/program")
	}},
	{"kinds", doctor.Warning, func(p *patient) func() {
		p.create(1, time.Hour, func(_ int, in *job.NewJob) {
			in.Definition.Name, in.Definition.Target = "disabled", job.Target{Kind: "disabled", Config: json.RawMessage(`{}`)}
		})
		return func() {
			p.sql(`DELETE FROM job`)
			p.sql(`DELETE FROM cursor`)
			p.sql(`DELETE FROM run`)
		}
	}},
	{"workers", doctor.Warning, func(p *patient) func() {
		p.create(1, time.Hour, func(_ int, in *job.NewJob) {
			in.Definition.Name = "pulled"
			in.Definition.Target = job.Target{Kind: "worker", Config: json.RawMessage(`{"handler":"h"}`)}
		})
		require.NoError(p.t, until(p.t.Context(), func() bool {
			tag, err := p.pool.Exec(p.t.Context(), `UPDATE run SET run_at = now() - interval '2 min' WHERE handler = 'h'`)
			return err == nil && tag.RowsAffected() > 0
		}))
		return func() {
			p.sql(`DELETE FROM job`)
			p.sql(`DELETE FROM cursor`)
			p.sql(`DELETE FROM run`)
		}
	}},
	{"paused", doctor.Warning, func(p *patient) func() {
		p.sql(`UPDATE queue SET paused = true, paused_at = now() - interval '8 days'`)
		return func() { p.sql(`UPDATE queue SET paused = false, paused_at = NULL`) }
	}},
	{"keys", doctor.Warning, func(p *patient) func() {
		p.sql(`INSERT INTO api_key (id, namespace_id, name, role, prefix, hash, created_by, created_at, expires_at)
		       SELECT gen_random_uuid(), id, 'ends soon', 'viewer', 'bfk_', '\x00', 'test', now(), now() + interval '1 day'
		       FROM namespace`)
		return func() { p.sql(`DELETE FROM api_key WHERE name = 'ends soon'`) }
	}},
	{"archive", doctor.Warning, func(p *patient) func() {
		p.sql(`ALTER SYSTEM SET archive_mode = on`)
		p.sql(`ALTER SYSTEM SET archive_command = 'false'`)
		p.restart()
		p.sql(`SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()`)
		return func() {
			p.sql(`ALTER SYSTEM RESET ALL`)
			p.restart()
		}
	}},
	{"prepared-transactions", doctor.Warning, func(p *patient) func() {
		p.sql(`ALTER SYSTEM SET max_prepared_transactions = 5`)
		p.restart()
		conn, err := pgx.Connect(p.t.Context(), p.db.url())
		require.NoError(p.t, err)
		_, err = conn.Exec(p.t.Context(), `BEGIN; PREPARE TRANSACTION 'forgotten'`)
		require.NoError(p.t, err)
		require.NoError(p.t, conn.Close(p.t.Context()))
		p.args = []string{"--max-transaction", "3s"}
		return func() {
			p.args = nil
			p.sql(`ROLLBACK PREPARED 'forgotten'`) // the setting stays: recovery needs it
		}
	}},
	{"nodes", doctor.Failure, func(p *patient) func() {
		require.Error(p.t, p.nodes[0].end(syscall.SIGKILL))
		return func() {
			p.nodes[0] = p.start()
			p.env = []string{"BELFRY_LISTEN=" + p.nodes[0].listen}
		}
	}},
}

// restart restarts PostgreSQL.
func (p *patient) restart() {
	p.t.Helper()
	require.NoError(p.t, p.db.kill(true))
	_, err := p.db.start(context.WithoutCancel(p.t.Context()))
	require.NoError(p.t, err)
	p.pool.Reset()
}

// certificate gives doctor a certificate that expires after a while.
func (p *patient) certificate(left time.Duration) (undo func()) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(p.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: clock.Now().Add(-48 * time.Hour), NotAfter: clock.Now().Add(left),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(p.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(p.t, err)
	dir := p.t.TempDir()
	cert, private := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, private: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(p.t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	return p.asked("BELFRY_TLS_CERT="+cert, "BELFRY_TLS_KEY="+private, "BELFRY_API_URL=http://"+p.nodes[0].listen)
}
