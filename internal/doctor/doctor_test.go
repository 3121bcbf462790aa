package doctor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/doctor"
)

var now = time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)

func healthy() doctor.Facts {
	return doctor.Facts{
		Database: doctor.Database{
			Now: now, Version: 150_018, Schema: 5, SchemaNeeded: 5, SchemaLatest: 6, MaxConnections: 97, Fsync: true,
			FullPageWrites: true, SynchronousCommit: "on",
		},
		Cluster: &doctor.Cluster{
			Nodes: []doctor.Node{{
				Name: "a", Version: "v1", Connections: 24, Keyset: "k", Slots: 1000, Files: 2000, Memory: 512 << 20,
			}},
			Partitions: 256, Trigrams: true, DaysAhead: 14, TrustedAt: now.Add(-time.Second),
		},
		Machine: doctor.Machine{
			Now: now, Self: doctor.Probe{Asked: true, What: "http://127.0.0.1:8420"},
		},
		MaxTransaction: 10 * time.Minute,
	}
}

// The faults of test/cluster are real. These cannot be made there.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		check  string
		status doctor.Status
		make   func(*doctor.Facts)
	}{
		"old PostgreSQL":    {"version", doctor.Failure, func(f *doctor.Facts) { f.Database.Version = 140_012 }},
		"lost writes":       {"failovers", doctor.Warning, lostWrites},
		"old backup":        {"backup", doctor.Warning, backedUp(26*time.Hour + time.Minute)},
		"a fresh backup":    {"", doctor.OK, backedUp(26 * time.Hour)},
		"held":              {"restore", doctor.Warning, func(f *doctor.Facts) { f.Cluster.Held = true }},
		"newer schema":      {"schema", doctor.Warning, func(f *doctor.Facts) { f.Database.Schema = 7 }},
		"older schema":      {"schema", doctor.Failure, func(f *doctor.Facts) { f.Database.Schema = 4 }},
		"unreleased schema": {"schema", doctor.Failure, func(f *doctor.Facts) { f.Database.SchemaUnreleased = true }},
		"contracted schema": {"schema", doctor.Failure, func(f *doctor.Facts) { f.Database.Schema, f.Database.SchemaOldest = 8, 7 }},
		"dropped index":     {"objects", doctor.Warning, dropped("index run_feed")},
		"dropped policy":    {"objects", doctor.Failure, dropped("index run_feed", "policy worker of run")},
		"a short timeout":   {"timeouts", doctor.Warning, func(f *doctor.Facts) { f.Database.Short = []string{"lock_timeout"} }},
		"no autovacuum":     {"dead-rows", doctor.Warning, func(f *doctor.Facts) { f.Database.AutovacuumOff = true }},
		"full disk":         {"disk", doctor.Failure, func(f *doctor.Facts) { f.Database.CannotWrite = "No space left on device" }},
		"no fsync":          {"durability", doctor.Failure, func(f *doctor.Facts) { f.Database.Fsync = false }},
		"wraparound":        {"wraparound", doctor.Warning, func(f *doctor.Facts) { f.Database.WraparoundAge = 6e8 }},
		"no day for now":    {"history-days", doctor.Failure, func(f *doctor.Facts) { f.Cluster.DaysAhead = 0 }},
		"few days":          {"history-days", doctor.Warning, func(f *doctor.Facts) { f.Cluster.DaysAhead = 2 }},
		"clocks differ":     {"clock", doctor.Warning, func(f *doctor.Facts) { f.Machine.Now = now.Add(time.Minute) }},
		"clock in doubt":    {"clock", doctor.Failure, func(f *doctor.Facts) { f.Cluster.TrustedAt = now.Add(-clock.MaxJump - 1) }},
		"clock went back":   {"clock", doctor.Failure, func(f *doctor.Facts) { f.Cluster.TrustedAt = now.Add(clock.MaxJump + 1) }},
		"clock not trusted": {"clock", doctor.Failure, func(f *doctor.Facts) { f.Cluster.TrustedAt = time.Time{} }},
		"clear key":         {"keysets", doctor.Warning, clearReportKey("k")},
		"no keyset":         {"", doctor.OK, clearReportKey("")},
		"old finding":       {"audit", doctor.Warning, found(8 * 24 * time.Hour)},
		"finding":           {"audit", doctor.Failure, found(time.Hour)},
		"little memory":     {"memory", doctor.Warning, func(f *doctor.Facts) { f.Cluster.Nodes[0].Memory = 64 << 20 }},
		"few files":         {"files", doctor.Warning, func(f *doctor.Facts) { f.Cluster.Nodes[0].Files = 1999 }},
		"no owners":         {"partitions", doctor.Failure, unowned(10 * time.Second)},
		"no owners yet":     {"partitions", doctor.Warning, unowned(10*time.Second - 1)},
		"unknown limits":    {"", doctor.OK, func(f *doctor.Facts) { f.Cluster.Nodes[0].Files, f.Cluster.Nodes[0].Memory = 0, 0 }},
		"disabled kind": {"kinds", doctor.Warning, func(f *doctor.Facts) {
			f.Cluster.Undelivered = []string{"default/nats"}
		}},
		"paused jobs":     {"paused", doctor.Warning, func(f *doctor.Facts) { f.Cluster.PausedJobs = 3 }},
		"hidden standbys": {"standbys", doctor.NotChecked, hiddenStandbys},
		"no bucket": {"archive-store", doctor.Failure, func(f *doctor.Facts) {
			f.Machine.Archive = doctor.Probe{Asked: true, What: "file:///archive", Problem: "no such directory"}
		}},
		"archive of another user": {"archive-store", doctor.NotChecked, func(f *doctor.Facts) {
			f.Machine.Archive = doctor.Probe{Asked: true, What: "file:///archive", Skipped: "root would write"}
		}},
		"archive behind": {"archive-days", doctor.Warning, func(f *doctor.Facts) {
			f.Machine.Archive, f.Cluster.ArchiveBehind = doctor.Probe{Asked: true}, 3
		}},
		"required archive behind": {"archive-days", doctor.Failure, func(f *doctor.Facts) {
			f.Cluster.ArchiveRequired, f.Cluster.ArchiveBehind = true, 3
		}},
		"days without an archive": {"", doctor.OK, func(f *doctor.Facts) { f.Cluster.ArchiveBehind = 30 }},
		"broken TLS":              {"certificate", doctor.Failure, brokenCertificate},
		"nothing is hidden":       {"", doctor.OK, func(*doctor.Facts) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			tc.make(&f)
			for _, r := range doctor.Judge(f) {
				if r.Check == tc.check {
					require.Equal(t, tc.status, r.Status)
					require.Equal(t, tc.status == doctor.NotChecked, r.Hint == "")
					continue
				}
				if r.Check == "objects" && tc.check == "schema" {
					require.Equal(t, doctor.NotChecked, r.Status)
					continue
				}
				require.Equal(t, doctor.OK, r.Status, "%s: %s", r.Check, r.Message)
			}
		})
	}
}

// unowned takes all partitions away while a node runs for a while.
func unowned(since time.Duration) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		f.Cluster.Unowned, f.Cluster.Nodes[0].StartedAt = 256, now.Add(-since)
	}
}

// TestMixedVersions: doctor names the nodes of each version.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	f := healthy()
	for _, name := range []string{"b", "c"} {
		f.Cluster.Nodes = append(f.Cluster.Nodes, doctor.Node{Name: name, Version: "v2"})
	}
	for _, r := range doctor.Judge(f) {
		if r.Check == "versions" {
			require.Equal(t, "nodes run different versions: v1 (a), v2 (b, c)", r.Message)
			require.Equal(t, "Finish the upgrade or roll it back.", r.Hint)
			return
		}
	}
	require.Fail(t, "there is no such check")
}

func found(ago time.Duration) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		f.Cluster.Findings, f.Cluster.Newest = 3, doctor.Finding{Kind: auditor.Missing, FoundAt: now.Add(-ago)}
	}
}

func backedUp(ago time.Duration) func(*doctor.Facts) {
	at := now.Add(-ago)
	return func(f *doctor.Facts) { f.Cluster.BackedUpAt = &at }
}

func clearReportKey(keyset string) func(*doctor.Facts) {
	return func(f *doctor.Facts) { f.Cluster.ClearReportKey, f.Cluster.Nodes[0].Keyset = true, keyset }
}

func dropped(names ...string) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		for _, name := range names {
			f.Cluster.Missing = append(f.Cluster.Missing, doctor.Object{Name: name, Statement: "CREATE …"})
		}
	}
}

func lostWrites(f *doctor.Facts) { f.Cluster.LostTimeline, f.Cluster.LostUntil = 7, &now }

func hiddenStandbys(f *doctor.Facts) { f.Database.SyncNames, f.Database.Standbys = "ANY 1 (*)", 1 }

func brokenCertificate(f *doctor.Facts) {
	f.Machine.Certificate = &doctor.Certificate{Problem: "no such file"}
}

// What doctor says about the clock depends on whether this machine agrees with the database, and without a node on
// whether the next one will trust it.
func TestJudgeClock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trusted, machine time.Duration // from now
		nodes            bool
		text, hint       string
	}{
		"all agree": {-10 * time.Second, time.Second, true, "agrees", ""},
		"the clock jumped": {
			-time.Hour * 24 * 365, -time.Hour * 24 * 365, true,
			"in doubt, 365 days ahead of the time that nodes trusted last, 2025-03-08T02:30:00Z, so nodes do no work; " +
				"the clock of the database is 365 days ahead of the clock of this machine", "Correct the wrong one",
		},
		"it is right":   {5 * time.Hour, 0, true, "in doubt, 5 hours behind the time", "belfry clock confirm"},
		"off for days":  {-clock.MaxGap, 0, false, "agrees", ""},
		"off for weeks": {-clock.MaxGap - 1, 0, false, "in doubt, 14 days ahead of", "belfry clock confirm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.Cluster.TrustedAt, f.Machine.Now = now.Add(tc.trusted), now.Add(tc.machine)
			if !tc.nodes {
				f.Cluster.Nodes = nil
			}
			for _, r := range doctor.Judge(f) {
				if r.Check == "clock" {
					require.Contains(t, r.Message, tc.text)
					require.Contains(t, r.Hint, tc.hint)
					require.Equal(t, tc.hint == "", r.Status == doctor.OK)
				}
			}
		})
	}
}

// Behind a pooler the limit of PostgreSQL says nothing about how many connections nodes may open.
func TestJudgePooled(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.Database.Pooled, f.Cluster.Nodes[0].Connections = true, 1000
	for _, r := range doctor.Judge(f) {
		require.Equal(t, doctor.OK, r.Status, "%s: %s", r.Check, r.Message)
	}
}

// Without a connection, only what needs none is checked.
func TestJudgeUnreachable(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.Database, f.Cluster = doctor.Database{Unreachable: "cannot connect to db:5432 as x: connection refused"}, nil
	checked := map[string]doctor.Status{}
	for _, r := range doctor.Judge(f) {
		if r.Status != doctor.NotChecked {
			checked[r.Check] = r.Status
		}
	}
	require.Equal(t, map[string]doctor.Status{
		"connection": doctor.Failure, "certificate": doctor.OK, "commands": doctor.OK,
	}, checked)
}

// Hints hold what to do: a user may not have the repository.
func TestHints(t *testing.T) {
	t.Parallel()
	f := healthy()
	lostWrites(&f)
	found(time.Hour)(&f)
	f.Database.Role, f.Database.Pooled, f.Database.Unbounded = "belfry_server", true, []string{"statement_timeout"}
	f.Database.RoleProblem, f.Machine.Self.Problem = "the database role x owns the tables", "timeout"
	hints := map[string]string{}
	for _, r := range doctor.Judge(f) {
		hints[r.Check] = r.Hint
		require.NotContains(t, r.Hint, "docs/")
	}
	require.Contains(t, hints["failovers"], "DELETE FROM failover WHERE timeline = 7")
	require.Contains(t, hints["pooler"], "ALTER ROLE belfry_server SET statement_timeout = '60s';")
	require.Contains(t, hints["api"], "Check that the node runs")
	require.Contains(t, hints["audit"], "belfry audit ledger --backfill")
	for _, r := range doctor.Judge(healthy()) {
		if r.Check == "connections" {
			require.Equal(t, "1 node may open 24 of 97", r.Message)
		}
	}
}

// A schema that is too old to be read is the one fault that is named.
func TestJudgeOldSchema(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.Cluster, f.Database.Schema = nil, 4
	for _, r := range doctor.Judge(f) {
		require.Equal(t, r.Check == "schema", r.Status == doctor.Failure, "%s: %s", r.Check, r.Message)
	}
}

// Before the installation there is no cluster to judge.
func TestJudgeBefore(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.Cluster, f.Pre = nil, true
	results := doctor.Judge(f)
	require.NotEmpty(t, results)
	for _, r := range results {
		require.Equal(t, doctor.OK, r.Status, "%s: %s", r.Check, r.Message)
	}
	f.Pre = false
	for _, r := range doctor.Judge(f) {
		require.NotEqual(t, doctor.Failure, r.Status, "%s: %s", r.Check, r.Message)
	}
}

// Each check has a section in the guide, and the other way round.
func TestEachCheckIsExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/doctor.md")
	require.NoError(t, err)
	var sections []string
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			sections = append(sections, strings.TrimSpace(name))
		}
	}
	require.Equal(t, doctor.Names(), sections, "the sections of docs/guide/doctor.md, in the order of the report")
}
