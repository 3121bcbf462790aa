package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/problem"
)

// Database is what PostgreSQL reports about itself, at one instant.
type Database struct {
	Unreachable string // why there is no connection; all else is unknown then

	Now          time.Time
	Version      int // server_version_num
	Role         string
	RoleProblem  string // why the role is not safe for a node; empty: it is
	Schema       int64  // version of the schema; 0: there is none
	SchemaNeeded int64  // the version that this program needs
	SchemaLatest int64  // the last version that this program knows; contract migrations follow the needed one
	SchemaOldest int64  // the version that a node must know, because of a contract migration
	SeesAll      bool   // the role may see the sessions of other roles

	SchemaUnreleased bool // a version before 0.1.0 created it

	Pooled    bool     // a pooler, such as PgBouncer, stands between
	Unbounded []string // timeouts that a statement outside a transaction does not have
	Short     []string // timeouts that the login, the database or the server sets lower than nodes do

	AutovacuumOff bool // on the whole server

	MaxConnections    int    // without those reserved for superusers
	Bytes             int64  // of the database on disk, without its WAL
	CannotWrite       string // why PostgreSQL cannot write where the database is; empty: it can
	Fsync             bool
	FullPageWrites    bool
	SynchronousCommit string
	Standbys          int    // attached
	SyncStandbys      int    // of them, those that commits wait for
	SyncNames         string // synchronous_standby_names
	Archiving         bool
	ArchiveFailing    string // the segment that cannot be archived; empty: none

	OldestTransaction time.Duration // how long the oldest open transaction has been open
	OldestPrepared    time.Duration // the oldest prepared transaction
	WraparoundAge     int64         // transactions since the oldest row was frozen
	CheckpointsTimed  int64
	CheckpointsForced int64 // because max_wal_size was reached
	Slots             []Slot
}

// Slot is a replication slot.
type Slot struct {
	Name   string
	Active bool
	Kept   int64 // bytes of WAL
}

const (
	minVersion     = 150_000
	maxAge         = 500_000_000 // transactions; PostgreSQL stops at about 2,100 million
	maxKept        = 1 << 30     // bytes of WAL for an inactive slot
	minCheckpoints = 20          // below that the ratio says nothing
)

// These checks say why others cannot be made.
const (
	connectionCheck = "connection"
	schemaCheck     = "schema"
)

var databaseChecks = []check{
	{"database", connectionCheck, true, (*Facts).connection},
	{"database", "version", true, (*Facts).version},
	{"database", schemaCheck, false, (*Facts).schema},
	{"database", "objects", false, (*Facts).objects},
	{"database", "role", false, (*Facts).role},
	{"database", "connections", false, (*Facts).connections},
	{"database", "pooler", false, (*Facts).pooler},
	{"database", "timeouts", true, (*Facts).timeouts},
	{"database", "disk", true, (*Facts).disk},
	{"database", "durability", true, (*Facts).durability},
	{"database", "standbys", true, (*Facts).standbys},
	{"database", "failovers", false, (*Facts).failovers},
	{"database", "archive", true, (*Facts).archive},
	{"database", "backup", false, (*Facts).backup},
	{"database", "restore", false, (*Facts).restore},
	{"database", "replication-slots", true, (*Facts).slots},
	{"database", "open-transactions", true, (*Facts).transactions},
	{"database", "prepared-transactions", true, (*Facts).prepared},
	{"database", "wraparound", true, (*Facts).wraparound},
	{"database", "checkpoints", true, (*Facts).checkpoints},
	{"database", "dead-rows", false, (*Facts).deadRows},
	{"database", "name-search", false, (*Facts).nameSearch},
	{"database", "history-days", false, (*Facts).historyDays},
}

func (f *Facts) connection() verdict {
	if p := f.Database.Unreachable; p != "" {
		return fail("Check that PostgreSQL runs and that database_url is right.", "%s", p)
	}
	return ok("as %s", f.Database.Role)
}

func (f *Facts) version() verdict {
	if v := f.Database.Version; v < minVersion {
		return fail("Upgrade PostgreSQL to 15 or later.", "PostgreSQL %d is too old", v/10_000)
	}
	return ok("PostgreSQL %d.%d", f.Database.Version/10_000, f.Database.Version%10_000)
}

func (f *Facts) schema() verdict {
	d := &f.Database
	switch {
	case d.SchemaUnreleased:
		return fail("Create a new database and run: belfry migrate",
			"this database was created by a version before 0.1.0, and cannot be migrated")
	case d.Schema < d.SchemaNeeded:
		return fail("As the owner of the database run: belfry migrate",
			"the schema is at version %d and this belfry needs %d", d.Schema, d.SchemaNeeded)
	case d.SchemaOldest > d.SchemaLatest:
		return fail("Use a belfry of the version of the nodes. This one cannot run as a node.",
			"the schema is at version %d, without what this belfry uses, which knows %d", d.Schema, d.SchemaLatest)
	case d.Schema > d.SchemaLatest:
		return warn("Upgrade this belfry to the version of the nodes.",
			"the schema is at version %d and this belfry knows %d", d.Schema, d.SchemaLatest)
	}
	if d.Schema < d.SchemaLatest {
		return ok("version %d; when you will not roll back the upgrade, run: belfry migrate --contract", d.Schema)
	}
	return ok("version %d", d.Schema)
}

func (f *Facts) objects() verdict {
	d, missing := &f.Database, f.Cluster.Missing
	switch {
	case d.SchemaUnreleased || d.Schema < d.SchemaNeeded || d.Schema > d.SchemaLatest:
		return notChecked("the schema is of another version")
	case len(missing) == 0:
		return ok("all indexes and policies of the schema are there")
	}
	say := warn
	names, hint := []string{}, "As the owner of the database run:"
	for _, o := range missing {
		if !strings.HasPrefix(o.Name, "index ") { // it keeps namespaces apart
			say = fail
		}
		names, hint = append(names, o.Name), hint+" "+o.Statement+";"
	}
	return say(hint, "the schema had these, and they are gone: %s", strings.Join(names, ", "))
}

func (f *Facts) role() verdict {
	if p := f.Database.RoleProblem; p != "" {
		return fail("Run doctor with the database URL of the nodes. If you did, run the command that the message names.",
			"%s", p)
	}
	return ok("%s has the rights of a node and no more", f.Database.Role)
}

func (f *Facts) connections() verdict {
	need := 0
	for _, n := range f.Cluster.Nodes {
		need += n.Connections
	}
	nodes := problem.Count(len(f.Cluster.Nodes), "node")
	if f.Database.Pooled {
		return ok("%s may open %d, to the pooler", nodes, need)
	}
	if have := f.Database.MaxConnections; need > have {
		return fail("Raise max_connections, or lower connections and api.connections of the nodes.",
			"%s may open %d connections and PostgreSQL allows %d", nodes, need, have)
	}
	return ok("%s may open %d of %d", nodes, need, f.Database.MaxConnections)
}

func (f *Facts) pooler() verdict {
	d := &f.Database
	switch {
	case !d.Pooled:
		return ok("none")
	case len(d.Unbounded) > 0:
		return warn(f.setTimeouts(d.Unbounded)+" Then let the pooler reconnect.",
			"a pooler stands between, and the role %s has no %s: statements of a node that is frozen do not end", d.Role,
			strings.Join(d.Unbounded, ", "))
	}
	return ok("in between, and the role %s has its timeouts", d.Role)
}

// setTimeouts is how to set timeouts of the role. The values are those of direct connections.
func (f *Facts) setTimeouts(names []string) string {
	values := map[string]string{"idle_in_transaction_session_timeout": "5s", "tcp_user_timeout": "10s"}
	hint := "As the owner of the database run:"
	for _, name := range names {
		hint += fmt.Sprintf(" ALTER ROLE %s SET %s = '%s';", f.Database.Role, name, cmp.Or(values[name], "60s"))
	}
	return hint
}

func (f *Facts) timeouts() verdict {
	if short := f.Database.Short; len(short) > 0 {
		return warn(f.setTimeouts(short), "the role %s, the database or the server sets these lower than nodes need: %s",
			f.Database.Role, strings.Join(short, ", "))
	}
	return ok("none is lower than nodes need")
}

func (f *Facts) disk() verdict {
	if p := f.Database.CannotWrite; p != "" {
		return fail("Add space or remove other files now: PostgreSQL stops when its WAL has no space either. "+
			"Never delete files of PostgreSQL. Then lower keep_history, or drop what keeps WAL (replication-slots, archive).",
			"PostgreSQL cannot write 16 MiB: %s", p)
	}
	return ok("PostgreSQL can write; the database has %d MiB without its WAL", f.Database.Bytes>>20)
}

func (f *Facts) durability() verdict {
	d := &f.Database
	switch {
	case !d.Fsync:
		return fail("Set fsync = on and restart PostgreSQL.", "fsync is off: a crash of the machine loses the database")
	case !d.FullPageWrites:
		return fail("Set full_page_writes = on.", "full_page_writes is off: a crash of the machine may corrupt pages")
	case d.SynchronousCommit == "off":
		return fail("Set synchronous_commit = on, or reset it for the role and the database.",
			"synchronous_commit is off: a crash of PostgreSQL loses acknowledged writes")
	}
	return ok("fsync and full_page_writes are on, synchronous_commit is %s", d.SynchronousCommit)
}

func (f *Facts) standbys() verdict {
	d := &f.Database
	switch {
	case d.SyncNames != "" && d.Standbys > 0 && !d.SeesAll:
		return notChecked("the role %s may not see the state of standbys; GRANT pg_monitor TO it", d.Role)
	case d.SyncNames != "" && d.SyncStandbys == 0:
		return fail("Start a standby that synchronous_standby_names names, or empty the setting.",
			"synchronous_standby_names is %q and no such standby is attached: commits wait", d.SyncNames)
	case d.SyncNames == "" && d.Standbys > 0:
		return warn("Set synchronous_standby_names, for example to 'ANY 1 (*)'.",
			"%s, none synchronous: a failover may lose acknowledged writes", problem.Count(d.Standbys, "standby"))
	case d.Standbys == 0:
		return ok("none: writes survive a crash, but not the loss of the disk")
	}
	return ok("%d, commits wait for %s", d.Standbys, d.SyncNames)
}

func (f *Facts) failovers() verdict {
	if at := f.Cluster.LostUntil; at != nil {
		return warn(fmt.Sprintf("Check what was written shortly before it. Then run: "+
			"DELETE FROM failover WHERE timeline = %d", f.Cluster.LostTimeline),
			"the failover of %s may have lost acknowledged writes", at.UTC().Format(time.RFC3339))
	}
	return ok("none of the last 7 days may have lost acknowledged writes")
}

func (f *Facts) archive() verdict {
	switch d := &f.Database; {
	case d.ArchiveFailing != "":
		return warn("Read the log of PostgreSQL: WAL piles up until archive_command works.",
			"archiving %s fails", d.ArchiveFailing)
	case d.Archiving:
		return ok("WAL is archived")
	}
	return ok("off")
}

// maxBackupAge is that of the alert BelfryBackupOld.
const maxBackupAge = 26 * time.Hour

func (f *Facts) backup() verdict {
	switch at := f.Cluster.BackedUpAt; {
	case at == nil:
		return ok("none was reported")
	case f.Database.Now.Sub(*at) > maxBackupAge:
		return warn("Look at the log of the backup. After each one run: belfry backup done",
			"the last backup that was reported is %s old", ago(f.Database.Now.Sub(*at)))
	default:
		return ok("the last one was reported at %s", at.UTC().Format(time.RFC3339))
	}
}

func (f *Facts) restore() verdict {
	if f.Cluster.Held {
		return warn("Decide about them: belfry restore status",
			"the database was restored to an earlier time, and runs of the forgotten time are held")
	}
	return ok("nothing is held because of a restore")
}

func (f *Facts) slots() verdict {
	var bad []string
	for _, s := range f.Database.Slots {
		if !s.Active && s.Kept > maxKept {
			bad = append(bad, s.Name)
		}
	}
	if len(bad) > 0 {
		return warn("Start its consumer, or drop it with pg_drop_replication_slot.",
			"unused and keeping WAL on the disk: %s", strings.Join(bad, ", "))
	}
	return ok("%d, none keeps WAL without being used", len(f.Database.Slots))
}

func (f *Facts) transactions() verdict {
	if t := f.Database.OldestTransaction; t > f.MaxTransaction {
		return warn("Find it in pg_stat_activity (order by xact_start) and end it: vacuum cannot remove dead rows.",
			"a transaction has been open for %s", ago(t))
	}
	if !f.Database.SeesAll {
		return ok("none over %s among those of %s; with pg_monitor it would see all", ago(f.MaxTransaction), f.Database.Role)
	}
	return ok("none over %s", ago(f.MaxTransaction))
}

func (f *Facts) prepared() verdict {
	if t := f.Database.OldestPrepared; t > f.MaxTransaction {
		return warn("Find it in pg_prepared_xacts, then COMMIT PREPARED or ROLLBACK PREPARED.",
			"a prepared transaction has been waiting for %s", ago(t))
	}
	return ok("none over %s", ago(f.MaxTransaction))
}

func (f *Facts) wraparound() verdict {
	age := f.Database.WraparoundAge
	if age > maxAge {
		return warn("Look for open transactions and unused slots, then run VACUUM (FREEZE) on the oldest tables.",
			"the oldest row is %d million transactions old; PostgreSQL stops at about 2,100 million", age/1e6)
	}
	return ok("the oldest row is %d million transactions old", age/1e6)
}

func (f *Facts) checkpoints() verdict {
	timed, forced := f.Database.CheckpointsTimed, f.Database.CheckpointsForced
	if timed+forced >= minCheckpoints && forced > timed {
		return warn("Raise max_wal_size.", "%d of %d checkpoints came early because max_wal_size was reached",
			forced, timed+forced)
	}
	return ok("%d of %d came early", forced, timed+forced)
}

func (f *Facts) deadRows() verdict {
	if f.Database.AutovacuumOff {
		return warn("As a superuser run: ALTER SYSTEM RESET autovacuum; ALTER SYSTEM RESET track_counts; "+
			"SELECT pg_reload_conf(); and look for the settings in postgresql.conf.",
			"autovacuum or track_counts is off: dead rows pile up, and everything becomes slower")
	}
	if off := f.Cluster.Unvacuumed; len(off) > 0 {
		const alter, reset = "ALTER TABLE ", " RESET (autovacuum_enabled);"
		return warn("As the owner of the database run: "+alter+strings.Join(off, reset+" "+alter)+reset,
			"autovacuum is off for tables: %s", strings.Join(off, ", "))
	}
	for _, t := range f.Cluster.Tables {
		if t.Dead > 100_000 && t.Dead > 10*t.Live {
			return warn("Look for open transactions; else make autovacuum faster (autovacuum_vacuum_cost_limit).",
				"table %s has %d dead rows and %d live ones", t.Name, t.Dead, t.Live)
		}
	}
	return ok("run, cursor and session are vacuumed")
}

func (f *Facts) nameSearch() verdict {
	if !f.Cluster.Trigrams {
		return warn("As the owner of the database run: CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE INDEX CONCURRENTLY "+
			"job_name_trigram ON job USING gin (name gin_trgm_ops) WITH (gin_pending_list_limit = 2048)",
			"searches for parts of job names read every job, because index job_name_trigram is missing")
	}
	return ok("the index for parts of names is there")
}

func (f *Facts) historyDays() verdict {
	c := f.Cluster
	switch {
	case c.DefaultDay:
		return fail("Move its rows, then detach and drop it.",
			"run_history has a DEFAULT partition, which blocks the creation of days")
	case c.DaysAhead < 1:
		return fail("Nodes create days every 10 minutes; look for `prune failed` in their logs.",
			"there is no table for the runs that end tomorrow")
	case c.DaysAhead < 3:
		return warn("Nodes create days every 10 minutes; look for `prune failed` in their logs.",
			"history is prepared for only %s", problem.Count(c.DaysAhead, "day"))
	}
	return ok("%d days are prepared", c.DaysAhead)
}
