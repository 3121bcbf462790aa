package oracle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
)

func TestZones(t *testing.T) {
	t.Parallel()
	names, err := oracle.Zones()
	require.NoError(t, err)
	require.Greater(t, len(names), 400)
	require.Subset(t, names, []string{"UTC", "Europe/London", "America/Argentina/Buenos_Aires", "Etc/GMT+12"})
	require.NotContains(t, names, "localtime")
	require.NotContains(t, names, "tzdata.zi")
	for _, name := range names {
		_, err := time.LoadLocation(name)
		require.NoError(t, err)
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	of := func(zone string, from, to int) []oracle.Transition {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		return oracle.Transitions(loc, from, to)
	}
	require.Equal(t, []oracle.Transition{
		{At: instant(t, "2026-03-08T07:00:00Z"), Before: -5 * 3600, After: -4 * 3600},
		{At: instant(t, "2026-11-01T06:00:00Z"), Before: -4 * 3600, After: -5 * 3600},
	}, of("America/New_York", 2026, 2026))
	require.Equal(t, []oracle.Transition{
		{At: instant(t, "2011-04-02T14:00:00Z"), Before: -10 * 3600, After: -11 * 3600},
		{At: instant(t, "2011-09-24T14:00:00Z"), Before: -11 * 3600, After: -10 * 3600},
		{At: instant(t, "2011-12-30T10:00:00Z"), Before: -10 * 3600, After: 14 * 3600},
	}, of("Pacific/Apia", 2011, 2011))
	require.Len(t, of("Australia/Lord_Howe", 2026, 2027), 4)
	require.Len(t, of("Africa/Monrovia", 1972, 1972), 1)
	require.Empty(t, of("Asia/Tokyo", 2000, 2040))
}
