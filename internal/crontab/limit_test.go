package crontab

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLimitsOfACrontab: the jobs of a small crontab can be large, because each has all variables above it.
func TestLimitsOfACrontab(t *testing.T) {
	t.Parallel()
	limits := Limits{Entries: 5, Payload: 10_000, Bytes: 30_000}
	parse := func(text string) (*Crontab, error) { return ParseWithin(strings.NewReader(text), false, "UTC", limits) }
	const line = "0 * * * * /bin/true\n"

	_, err := parse(strings.Repeat(line, 5))
	require.NoError(t, err)
	_, err = parse(strings.Repeat(line, 6))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "line 6: it has more than 5 jobs")

	tab, err := parse("A=" + strings.Repeat("x", 8_000) + "\n" + line + "B=" + strings.Repeat("x", 3_000) + "\n" + line + "B=\n" + line)
	require.NoError(t, err)
	require.Len(t, tab.Entries, 2, "a variable that is set again does not count twice")
	require.Equal(t, 4, tab.Refused[0].Line)
	require.Contains(t, tab.Refused[0].Reason, "at most 10000 are taken")
	require.Contains(t, tab.Refused[0].Reason, "variables above")

	_, err = parse("A=" + strings.Repeat("x", 9_000) + "\n" + strings.Repeat(line, 5))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "line 5: the jobs up to this line have more than 30000 bytes")

	for _, small := range []string{"x\n", "MAILTO=x\n"} {
		_, err = parse(strings.Repeat(small, 1_000))
		require.ErrorIs(t, err, ErrTooLarge, "%q: what is refused or left out also takes space", small)
	}
}

// TestManyVariablesAreNotCopied: entries share their variables until one is set.
func TestManyVariablesAreNotCopied(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 1_000 {
		fmt.Fprintf(&b, "V%d=1\n", i)
	}
	b.WriteString(strings.Repeat("0 * * * * /bin/true\n", 1_000))
	tab, err := ParseWithin(strings.NewReader(b.String()), false, "UTC", Limits{})
	require.NoError(t, err)
	first := reflect.ValueOf(tab.Entries[0].Env).Pointer()
	require.Equal(t, first, reflect.ValueOf(tab.Entries[999].Env).Pointer())
	tab, err = ParseWithin(strings.NewReader("A=1\n0 * * * * a\nA=2\n0 * * * * b\n"), false, "UTC", Limits{})
	require.NoError(t, err)
	require.Equal(t, "1", tab.Entries[0].Env["A"])
	require.Equal(t, "2", tab.Entries[1].Env["A"])
}
