package crontab

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// userCrontab is also the input of the command's test.
//
//go:embed testdata/user
var userCrontab string

func TestCrontab(t *testing.T) {
	t.Parallel()
	tab, err := Parse(strings.NewReader(userCrontab), false, "Europe/Berlin")
	require.NoError(t, err)
	env := map[string]string{"SHELL": "/bin/bash"}
	daily := schedule.Spec{Cron: "@daily", Timezone: "Europe/Berlin", Jitter: "10m"}
	newYork := func(cron string) schedule.Spec { return schedule.Spec{Cron: cron, Timezone: "America/New_York"} }
	require.Equal(t, []Entry{
		{
			Line: 7, Spec: newYork("30 2 * * *"), Env: env, Comment: "Nightly backup",
			Command: "/usr/local/bin/backup.sh --all >/dev/null 2>&1",
		},
		{Line: 8, Spec: newYork("*/5 * * * *"), Env: env, Command: "NICE=1 /opt/bin/poll.py"},
		{
			Line: 10, Spec: newYork("0 9 * * mon-fri"), Env: env,
			Command: `mail -s "100% done" boss`, Stdin: "Dear boss,\ndone.\n",
		},
		{Line: 14, Spec: daily, Env: env, Command: "/opt/bin/poll.py"},
	}, tab.Entries)
	require.Equal(t, []string{"backup", "poll", "mail", "poll"}, []string{
		(&Entry{Command: tab.Entries[0].Command}).name(), tab.Entries[1].name(), tab.Entries[2].name(),
		tab.Entries[3].name(),
	})
	require.Equal(t, "nightly-backup", tab.Entries[0].name())
	var lines []int
	for _, r := range tab.Refused {
		lines = append(lines, r.Line)
		require.NotEmpty(t, r.Reason)
	}
	require.Equal(t, []int{15, 16, 17, 18}, lines)
	require.Len(t, tab.Notes, 1)
	require.Contains(t, tab.Notes[0], "line 3: MAILTO")
}

// @every is of cron libraries, such as the one that many programs in Go use.
func TestEvery(t *testing.T) {
	t.Parallel()
	tab, err := Parse(strings.NewReader("@every  90m root /bin/poll\n@every soon root /bin/poll\n@every\n"), true, "UTC")
	require.NoError(t, err)
	require.Len(t, tab.Entries, 1)
	require.Equal(t, schedule.Spec{Every: "90m", Timezone: "UTC"}, tab.Entries[0].Spec)
	require.Equal(t, "/bin/poll", tab.Entries[0].Command)
	require.Len(t, tab.Refused, 2)
	require.Contains(t, tab.Refused[0].Reason, "every")
}

func TestSystemCrontab(t *testing.T) {
	t.Parallel()
	const text = "17 * * * * root cd / && run-parts /etc/cron.hourly\n" +
		"25 6 * * * root test -x /usr/sbin/anacron || run-parts /etc/cron.daily\n"
	tab, err := Parse(strings.NewReader(text), true, "UTC")
	require.NoError(t, err)
	require.Len(t, tab.Entries, 2)
	require.Equal(t, "root", tab.Entries[0].User)
	require.Equal(t, "cd / && run-parts /etc/cron.hourly", tab.Entries[0].Command)
	_, err = Parse(strings.NewReader(text), false, "UTC")
	require.ErrorIs(t, err, ErrForm)
	tab, err = Parse(strings.NewReader("0 * * * * root\n"), true, "UTC")
	require.NoError(t, err)
	require.Contains(t, tab.Refused[0].Reason, "no command behind the user")
}

// FuzzCrontab checks that no line is lost: each is imported, refused, or not an entry.
func FuzzCrontab(f *testing.F) {
	f.Add(userCrontab)
	f.Add("@daily x\n-*/5 * * * * y\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, system := range []bool{false, true} {
			tab, err := Parse(strings.NewReader(text), system, "UTC")
			if err != nil {
				continue
			}
			lines := 0
			for _, line := range strings.Split(text, "\n") {
				line = strings.TrimSpace(line)
				if line != "" && line[0] != '#' && !variableLine.MatchString(line) {
					lines++
				}
			}
			require.Equal(t, lines, len(tab.Entries)+len(tab.Refused))
		}
	})
}
