package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
)

const firstYear, lastYear = 2000, 2040

// sampleSeed fixes what the short form tries, so that it never fails by chance. The long form finds new
// problems.
const sampleSeed = 2026

// sampleZones is how many zones the short form draws in addition to the notable ones.
const sampleZones = 3

// notable are changes that have broken schedulers before. They are always tried.
var notable = map[string][]int{
	"America/New_York":    {2026},
	"Europe/London":       {2026},
	"Australia/Lord_Howe": {2026},       // half an hour
	"Pacific/Apia":        {2011},       // a day left out
	"Antarctica/Casey":    {2010, 2018}, // three hours, and back over midnight
	"America/Sao_Paulo":   {2018},       // at midnight
	"Antarctica/Troll":    {2026},       // two hours
	"Africa/Casablanca":   {2031},       // back for a month, over new year
	// In Go's database: the last change before the permanent rule begins.
	"America/Metlakatla":      {2019},
	"America/Ciudad_Juarez":   {2022},
	"America/Indiana/Winamac": {2007},
	"Asia/Kathmandu":          nil, // quarter of an hour from UTC, no change
	"Asia/Tokyo":              nil,
}

// table is what to compare in a zone, and the names that share it.
type table struct {
	zone        string
	links       []string
	transitions []oracle.Transition
	// ordinary also compares moments that are not transitions.
	ordinary bool
}

// TestDST compares the product with the oracle: in the long form
// (BELFRY_DST=full) at every transition of every zone, else at a sample.
func TestDST(t *testing.T) {
	t.Parallel()
	names, err := oracle.Zones()
	require.NoError(t, err)
	full := os.Getenv("BELFRY_DST") == "full"
	var tables []table
	if full {
		tables = allTables(t, names)
		logTables(t, tables)
	} else {
		tables = sampleTables(t, names)
	}
	var total tally
	var done atomic.Int64
	t.Run("zones", func(t *testing.T) {
		for i, table := range tables {
			t.Run(strings.ReplaceAll(table.zone, "/", ":"), func(t *testing.T) {
				t.Parallel()
				compareTable(t, &total, table, i)
				if n := done.Add(1); full && n%10 == 0 {
					t.Logf("tables %d of %d, sequences %d, differences %d",
						n, len(tables), total.sequences.Load(), total.differences.Load())
				}
			})
		}
	})
	if !full {
		names = nil
		for _, table := range tables {
			names = append(names, table.zone)
		}
	}
	t.Logf("starting points=%d", total.starts.Load())
	t.Logf("zones=%d transitions=%d expressions=%d sequences=%d occurrences=%d differences=%d",
		len(names), total.transitions.Load(), countExpressions(), total.sequences.Load(),
		total.occurrences.Load(), total.differences.Load())
}

// TestDSTGoDatabase repeats TestDST on the zone database that comes with Go, in
// a process of its own because package time chooses once. A system's database
// often lists each transition up to 2037; Go's ends with the last change of the
// rules, and from there on package time computes. A binary with the embedded
// database, in an image without one, runs on Go's: both ways must be right.
func TestDSTGoDatabase(t *testing.T) {
	t.Parallel()
	database, err := oracle.GoDatabase()
	if err != nil || os.Getenv("ZONEINFO") != "" {
		t.Skip("no database of Go, or a database was chosen: ", err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestDST$", "-test.v", "-test.timeout=1h")
	child.Env = append(os.Environ(), "ZONEINFO="+database)
	child.Stdout, child.Stderr = t.Output(), t.Output()
	require.NoError(t, child.Run())
}

func countExpressions() int {
	n := 0
	for _, group := range expressions {
		n += len(group.texts)
	}
	return n
}

// compareTable tries every expression at every transition of the zone, and at some other moments.
func compareTable(t *testing.T, total *tally, table table, turn int) {
	t.Helper()
	c := newComparison(t, total, table.zone)
	var subjects []subject
	for _, group := range expressions {
		for i, expr := range group.texts {
			s, err := newSubject(expr, group.reach, table.zone, optionsFor(expr, turn+i))
			require.NoError(t, err, "%s in %s", expr, table.zone)
			subjects = append(subjects, s)
		}
	}
	total.transitions.Add(int64(len(table.transitions)))
	moments := table.transitions
	if table.ordinary {
		moments = slices.Concat(moments, ordinaryMoments(c.loc))
	}
	for _, moment := range moments {
		c.around(moment, subjects)
	}
	// Names with the same table share the work, but each must at least resolve
	// to that table in the product too.
	for _, link := range table.links {
		s, err := newSubject("30 2 * * *", days, link, oracle.AllDST()[:1])
		require.NoError(t, err, link)
		newComparison(t, total, link).around(moments[0], []subject{s})
	}
}

// ordinaryMoments are not transitions, but not quite ordinary either.
func ordinaryMoments(loc *time.Location) []oracle.Transition {
	var moments []oracle.Transition
	for _, at := range []time.Time{
		time.Date(2028, time.February, 29, 7, 0, 0, 0, time.UTC),
		// Package time assumes that a zone's last period of a year ends after 365 days: from here until the
		// new year, the end it reports is in the past.
		time.Date(2040, time.December, 31, 0, 0, 0, 0, time.UTC),
	} {
		_, offset := at.In(loc).Zone()
		moments = append(moments, oracle.Transition{At: at, Before: offset, After: offset})
	}
	return moments
}

// allTables scans every zone and groups the names whose tables are identical.
func allTables(t *testing.T, names []string) []table {
	t.Helper()
	scanned := make([][]oracle.Transition, len(names))
	keys := make([]string, len(names))
	var workers sync.WaitGroup
	var cursor atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := cursor.Add(1) - 1; i < int64(len(names)); i = cursor.Add(1) - 1 {
				loc, err := time.LoadLocation(names[i])
				if err != nil {
					t.Errorf("zone %s: %v", names[i], err)
					return
				}
				scanned[i] = oracle.Transitions(loc, firstYear, lastYear)
				_, offset := time.Date(firstYear, time.January, 1, 0, 0, 0, 0, time.UTC).In(loc).Zone()
				keys[i] = fmt.Sprint(offset, scanned[i])
			}
		})
	}
	workers.Wait()
	var tables []table
	index := map[string]int{}
	for i, name := range names {
		at, seen := index[keys[i]]
		if !seen {
			index[keys[i]] = len(tables)
			tables = append(tables, table{zone: name, transitions: scanned[i], ordinary: true})
			continue
		}
		tables[at].links = append(tables[at].links, name)
	}
	return tables
}

func logTables(t *testing.T, tables []table) {
	t.Helper()
	names, distinct, all := 0, 0, 0
	for _, table := range tables {
		names += 1 + len(table.links)
		distinct += len(table.transitions)
		all += (1 + len(table.links)) * len(table.transitions)
	}
	t.Logf("years %d-%d: %d names with %d transitions share %d distinct tables with %d",
		firstYear, lastYear, names, all, len(tables), distinct)
}

// sampleTables takes the notable zones, and one year of some others.
func sampleTables(t *testing.T, names []string) []table {
	t.Helper()
	var tables []table
	for zone, years := range notable {
		found := yearsOf(t, zone, years)
		found.ordinary = years == nil || zone == "America/New_York"
		tables = append(tables, found)
	}
	slices.SortFunc(tables, func(a, b table) int { return strings.Compare(a.zone, b.zone) })
	random := rand.New(rand.NewPCG(sampleSeed, 0))
	for len(tables) < len(notable)+sampleZones {
		drawn := yearsOf(t, names[random.IntN(len(names))], []int{firstYear + random.IntN(lastYear-firstYear+1)})
		known := slices.ContainsFunc(tables, func(other table) bool { return other.zone == drawn.zone })
		// Half of all zones never change; two of the notable ones do not either.
		if !known && len(drawn.transitions) > 0 {
			tables = append(tables, drawn)
		}
	}
	return tables
}

func yearsOf(t *testing.T, zone string, years []int) table {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	found := table{zone: zone}
	for _, year := range years {
		found.transitions = append(found.transitions, oracle.Transitions(loc, year, year)...)
	}
	return found
}
