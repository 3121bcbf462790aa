package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// MaxFindings is how many findings of the audit are counted.
const MaxFindings = 100

// findingIsNew is how long a finding of the audit is a failure. After that it is a warning, as long as history is kept.
const findingIsNew = 7 * 24 * time.Hour

// Cluster is what the tables of Belfry say, at the instant of Database.
type Cluster struct {
	Nodes           []Node
	Partitions      int
	Unowned         int // partitions without a live owner
	BrokenSchedules int
	FirstProblem    string // of a broken schedule

	TrustedAt time.Time // the last time of the database clock that nodes trusted; zero: none
	Findings  int       // of the audit, without those that were backfilled, up to MaxFindings
	Newest    Finding   // of Findings

	Missing      []Object // that the migrations created
	Unvacuumed   []string // tables without autovacuum
	Tables       []Table
	Trigrams     bool // the index for parts of names exists
	DaysAhead    int
	DefaultDay   bool
	LostTimeline int64      // of LostUntil
	LostUntil    *time.Time // when a failover was noticed that may have lost writes, within 7 days; nil: none
	BackedUpAt   *time.Time // when the last backup was reported; nil: never
	Held         bool       // a restore of the database holds runs

	ClearReportKey bool // the newest key of run tokens is not encrypted

	ArchiveRequired bool // days are dropped only when the archive has them
	ArchiveBehind   int  // days that are over and that the archive does not have

	Undelivered  []string // NAMESPACE/KIND of targets that active jobs have and no node delivers to
	Starved      []string // queues with due runs for workers, and no worker
	PausedJobs   int      // for more than 7 days
	PausedQueues []string
	ExpiringKeys []string // keys that expire within 7 days
}

// Finding is an occurrence that is not in the ledger as it must be.
type Finding struct {
	Namespace string
	Job       uuid.UUID
	DueAt     time.Time
	Kind      auditor.Kind
	FoundAt   time.Time
}

// Object is a part of the schema that is neither a table nor a function, and the statement that creates it.
type Object struct{ Name, Statement string }

// Table is the vacuum state of a table.
type Table struct {
	Name       string
	Live, Dead int64
}

// Node is what a node reports about itself in its session. Values that must agree are compared as text.
type Node struct {
	Name        string `json:"name,omitempty"`
	Version     string `json:"version"`
	Schema      int64  `json:"schema"` // the last version of the schema that the node knows
	Zones       string `json:"zones"`  // fingerprint of the time zone rules
	Keyset      string `json:"keyset"` // fingerprint of the keys for secrets; empty: none
	Connections int    `json:"connections"`
	KeepHistory string `json:"keep_history"`
	LookAhead   string `json:"look_ahead"`
	SessionTTL  string `json:"session_ttl"`
	WorkerTTL   string `json:"worker_ttl"`
	Commands    bool   `json:"commands"`
	Slots       int    `json:"slots"`  // attempts at the same time
	Files       uint64 `json:"files"`  // how many files and connections it may open; 0: unknown
	Memory      uint64 `json:"memory"` // bytes that it may use; 0: no limit

	Kinds []string `json:"kinds"` // of targets; members need it to assign partitions

	StartedAt time.Time `json:"-"`
}

var clusterChecks = []check{
	{"cluster", "nodes", false, (*Facts).nodes},
	{"cluster", "versions", false, (*Facts).versions},
	{"cluster", "settings", false, (*Facts).settings},
	{"cluster", "keysets", false, (*Facts).keysets},
	{"cluster", "partitions", false, (*Facts).partitions},
	{"cluster", "schedules", false, (*Facts).schedules},
	{"cluster", "audit", false, (*Facts).audit},
}

func (f *Facts) nodes() verdict {
	if len(f.Cluster.Nodes) == 0 {
		return fail("Start one: belfry server", "no node is running: nothing is planned and nothing starts")
	}
	var names []string
	for _, n := range f.Cluster.Nodes {
		names = append(names, n.Name)
	}
	return ok("%d running: %s", len(names), strings.Join(names, ", "))
}

func (f *Facts) versions() verdict {
	versions := f.differing(func(n Node) string { return n.Version })
	if len(versions) < 2 {
		return ok("all nodes run the same version")
	}
	for i, v := range versions {
		var names []string
		for _, n := range f.Cluster.Nodes {
			if n.Version == v {
				names = append(names, n.Name)
			}
		}
		versions[i] = fmt.Sprintf("%s (%s)", v, strings.Join(names, ", "))
	}
	return warn("Finish the upgrade or roll it back.", "nodes run different versions: %s", strings.Join(versions, ", "))
}

func (f *Facts) settings() verdict {
	var bad []string
	for name, of := range map[string]func(Node) string{
		"keep_history":    func(n Node) string { return n.KeepHistory },
		"look_ahead":      func(n Node) string { return n.LookAhead },
		"session_ttl":     func(n Node) string { return n.SessionTTL },
		"worker_ttl":      func(n Node) string { return n.WorkerTTL },
		"command.enabled": func(n Node) string { return fmt.Sprint(n.Commands) },
	} {
		if v := f.differing(of); len(v) > 1 {
			bad = append(bad, name+" is "+strings.Join(v, " and "))
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return warn("Give all nodes the same settings.", "nodes disagree: %s", strings.Join(bad, "; "))
	}
	return ok("all nodes agree")
}

func (f *Facts) keysets() verdict {
	v := f.differing(func(n Node) string { return n.Keyset })
	if len(v) > 1 {
		return fail("Give all nodes the same keyset: a node without the key cannot deliver jobs that use a secret.",
			"nodes have %d different keysets for secrets", len(v))
	}
	if f.Cluster.ClearReportKey && len(v) == 1 && v[0] != "" {
		return warn("Run belfry report-key rotate with the database URL of the owner and the keyset of the nodes.",
			"nodes have a keyset, and the key that signs run tokens is not encrypted with it")
	}
	return ok("all nodes have the same keyset")
}

// differing returns the different values of the nodes, sorted.
func (f *Facts) differing(of func(Node) string) (out []string) {
	for _, n := range f.Cluster.Nodes {
		out = append(out, of(n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// partitionsWithin is how long a node may take to get partitions after its start.
const partitionsWithin = 10 * time.Second

func (f *Facts) partitions() verdict {
	c := f.Cluster
	if c.Unowned > 0 && len(c.Nodes) > 0 {
		if slices.ContainsFunc(c.Nodes, func(n Node) bool { return f.Database.Now.Sub(n.StartedAt) < partitionsWithin }) {
			return warn("Run doctor again in some seconds.",
				"without a live owner: %d of %d; a node has just started", c.Unowned, c.Partitions)
		}
		return fail("Nodes take partitions within seconds. If this lasts, read their logs for \"assign\".",
			"without a live owner: %d of %d; their runs do not start", c.Unowned, c.Partitions)
	}
	return f.ofNodes(fmt.Sprintf("all %d have a live owner", c.Partitions))
}

func (f *Facts) schedules() verdict {
	if n := f.Cluster.BrokenSchedules; n > 0 {
		return fail("Correct the schedule of the job, or upgrade the nodes if a newer one created it.",
			"%s cannot be planned, for example: %s", problem.Count(n, "schedule"), f.Cluster.FirstProblem)
	}
	return ok("all can be planned")
}

func (f *Facts) audit() verdict {
	n, newest := f.Cluster.Findings, f.Cluster.Newest
	if n == 0 {
		return ok("no open finding")
	}
	age := f.Database.Now.Sub(newest.FoundAt)
	say := warn
	if age < findingIsNew {
		say = fail
	}
	count := problem.Count(n, "problem")
	if n >= MaxFindings {
		count = "at least " + count
	}
	id, due := job.FormatJobID(newest.Job), newest.DueAt.UTC().Format(time.RFC3339Nano)
	hint := fmt.Sprintf("Run: belfry why %s %s. Keep the logs and the WAL of that time and report it.", id, due)
	if newest.Kind == auditor.Missing {
		hint += " Then run the occurrence: belfry job backfill, or belfry audit ledger --backfill."
	}
	return say(hint, "the audit found %s; the newest is an occurrence that is %s, of a job in namespace %s, found %s ago",
		count, newest.Kind, newest.Namespace, ago(age))
}
