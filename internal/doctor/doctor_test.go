package doctor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/doctor"
)

var now = time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)

func healthy() doctor.Facts {
	return doctor.Facts{
		Database: doctor.Database{
			Now: now, Version: 150_018, Schema: 5, SchemaLatest: 5, MaxConnections: 97, Fsync: true,
			FullPageWrites: true, SynchronousCommit: "on",
		},
		Cluster: &doctor.Cluster{
			Nodes: []doctor.Node{{Name: "a", Version: "v1", Connections: 24}}, Partitions: 256, Trigrams: true,
			DaysAhead: 14,
		},
		Machine: doctor.Machine{
			Now: now, Slots: 1000, Files: 20_000, Self: doctor.Probe{Asked: true, What: "http://127.0.0.1:8420"},
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
		"newer schema":      {"schema", doctor.Warning, func(f *doctor.Facts) { f.Database.Schema = 6 }},
		"no fsync":          {"durability", doctor.Failure, func(f *doctor.Facts) { f.Database.Fsync = false }},
		"wraparound":        {"wraparound", doctor.Warning, func(f *doctor.Facts) { f.Database.WraparoundAge = 6e8 }},
		"no day for now":    {"history-days", doctor.Failure, func(f *doctor.Facts) { f.Cluster.DaysAhead = 0 }},
		"few days":          {"history-days", doctor.Warning, func(f *doctor.Facts) { f.Cluster.DaysAhead = 2 }},
		"clocks differ":     {"clock", doctor.Warning, func(f *doctor.Facts) { f.Machine.Now = now.Add(time.Minute) }},
		"little memory":     {"memory", doctor.Warning, func(f *doctor.Facts) { f.Machine.Memory = 64 << 20 }},
		"paused jobs":       {"paused", doctor.Warning, func(f *doctor.Facts) { f.Cluster.PausedJobs = 3 }},
		"hidden standbys":   {"standbys", doctor.NotChecked, hiddenStandbys},
		"broken TLS":        {"certificate", doctor.Failure, brokenCertificate},
		"nothing is hidden": {"", doctor.OK, func(*doctor.Facts) {}},
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
				require.Equal(t, doctor.OK, r.Status, "%s: %s", r.Check, r.Message)
			}
		})
	}
}

func hiddenStandbys(f *doctor.Facts) { f.Database.SyncNames, f.Database.Standbys = "ANY 1 (*)", 1 }

func brokenCertificate(f *doctor.Facts) {
	f.Machine.Certificate = &doctor.Certificate{Problem: "no such file"}
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
