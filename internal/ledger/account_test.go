package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
)

// TestAccount has the corners of the rule, in which its readers once disagreed.
func TestAccount(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)
	missed := ledger.Evidence{Cursor: job.ReasonMissed}
	for name, c := range map[string]struct {
		change func(*ledger.Life)
		due    time.Duration // before now
		found  ledger.Evidence
		fate   ledger.Fate
		reason job.Reason
	}{
		"a pause comes before what the cursor skipped": {
			func(l *ledger.Life) { l.State, l.PlanFrom = job.Paused, now.Add(-2*time.Hour) }, time.Hour, missed, ledger.Paused, "",
		},
		"what was due before the pause": {
			func(l *ledger.Life) { l.State, l.PlanFrom = job.Paused, now.Add(-2*time.Hour) }, 3 * time.Hour, missed,
			ledger.Skipped, job.ReasonMissed,
		},
		"a pause that has ended and was not resumed": {func(l *ledger.Life) {
			l.State, l.PlanFrom, l.PausedUntil = job.Paused, now.Add(-2*time.Hour), now.Add(-90*time.Minute)
		}, time.Hour, ledger.Evidence{}, ledger.Paused, ""},
		"after the end of the pause": {func(l *ledger.Life) {
			l.State, l.PlanFrom, l.PausedUntil = job.Paused, now.Add(-2*time.Hour), now.Add(time.Minute)
		}, -time.Hour, ledger.Evidence{}, ledger.Planned, ""},
		"the first day of history is not complete": {
			func(l *ledger.Life) { l.HistoryFrom = now.Add(-4 * time.Hour) }, time.Hour, ledger.Evidence{}, ledger.Old, "",
		},
		"archived": {
			func(l *ledger.Life) { l.HistoryFrom = now }, time.Hour, ledger.Evidence{Archived: true}, ledger.Archived, "",
		},
		"in the minute before the job was deleted": {
			func(l *ledger.Life) { l.State, l.DeletedAt = 0, now.Add(-time.Hour+time.Second) }, time.Hour,
			ledger.Evidence{},
			ledger.Gone, "",
		},
		"and its own history has it": {
			func(l *ledger.Life) { l.State, l.DeletedAt = 0, now.Add(-time.Hour+time.Second) }, time.Hour,
			ledger.Evidence{Own: job.ReasonPaused},
			ledger.Skipped, job.ReasonPaused,
		},
		"deleted, and it is not known when": {
			func(l *ledger.Life) { l.State = 0 }, time.Hour, ledger.Evidence{}, ledger.Gone, "",
		},
		"its cursor is behind": {
			func(l *ledger.Life) { l.NextDue = now.Add(-time.Hour) }, time.Hour, ledger.Evidence{}, ledger.Unplanned, "",
		},
		"a cursor that its job has left is behind": {
			func(l *ledger.Life) { l.NextDue, l.Replaced = now.Add(-time.Hour), true }, time.Hour,
			ledger.Evidence{},
			ledger.Missing, "",
		},
		"skipped, and backfilled": {
			func(*ledger.Life) {}, time.Hour,
			ledger.Evidence{Cursor: job.ReasonMissed, Backfilled: true},
			ledger.Skipped,
			job.ReasonMissed,
		},
		"lost, and backfilled": {func(*ledger.Life) {}, time.Hour, ledger.Evidence{Backfilled: true}, ledger.Backfilled, ""},
	} {
		l := ledger.Life{
			Now: now, State: job.Active, NextDue: now.Add(time.Hour), HistoryFrom: now.AddDate(0, -1, 0),
			Versions: []ledger.Version{{Number: 1, From: now.AddDate(-1, 0, 0)}},
		}
		c.change(&l)
		fate, reason := l.Account(now.Add(-c.due), 0, c.found)
		require.Equal(t, c.fate, fate, name)
		require.Equal(t, c.reason, reason, name)
	}
}

// TestAnEditTakesEffectAfterItsInstant: what is due then belongs to the version before.
func TestAnEditTakesEffectAfterItsInstant(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)
	l := ledger.Life{State: job.Active, Versions: []ledger.Version{{From: at.Add(-time.Hour)}, {From: at}}}
	for due, want := range map[time.Time]int{at: 0, at.Add(time.Microsecond): 1} {
		got, ok := l.At(due)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := l.At(at.Add(-time.Hour))
	require.False(t, ok, "it did not exist")
}
