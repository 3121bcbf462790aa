package files

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// UserCrontab is also the input of TestImport.
const UserCrontab = `# m h  dom mon dow   command
SHELL=/bin/bash
MAILTO = "ops@example.com"
CRON_TZ=America/New_York

# Nightly backup
30 2 * * *   /usr/local/bin/backup.sh --all >/dev/null 2>&1
*/5 * * * *	NICE=1 /opt/bin/poll.py
#0 5 * * * /usr/bin/old
0 9 * * mon-fri mail -s "100\% done" boss%Dear boss,%done.%

CRON_TZ=
RANDOM_DELAY=10
@daily   /opt/bin/poll.py
@reboot  /opt/bin/start
61 * * * * /bin/never
nonsense
0 0 31 2 * /bin/impossible
`

func TestCrontab(t *testing.T) {
	t.Parallel()
	tab, err := parseCrontab(strings.NewReader(UserCrontab), false, "Europe/Berlin")
	require.NoError(t, err)
	env := map[string]string{"SHELL": "/bin/bash"}
	daily := schedule.Spec{Cron: "@daily", Timezone: "Europe/Berlin", Jitter: "10m"}
	newYork := func(cron string) schedule.Spec { return schedule.Spec{Cron: cron, Timezone: "America/New_York"} }
	require.Equal(t, []cronEntry{
		{
			line: 7, spec: newYork("30 2 * * *"), env: env, comment: "Nightly backup",
			command: "/usr/local/bin/backup.sh --all >/dev/null 2>&1",
		},
		{line: 8, spec: newYork("*/5 * * * *"), env: env, command: "NICE=1 /opt/bin/poll.py"},
		{
			line: 10, spec: newYork("0 9 * * mon-fri"), env: env,
			command: `mail -s "100% done" boss`, stdin: "Dear boss,\ndone.\n",
		},
		{line: 14, spec: daily, env: env, command: "/opt/bin/poll.py"},
	}, tab.entries)
	require.Equal(t, []string{"backup", "poll", "mail", "poll"}, []string{
		(&cronEntry{command: tab.entries[0].command}).name(), tab.entries[1].name(), tab.entries[2].name(),
		tab.entries[3].name(),
	})
	require.Equal(t, "nightly-backup", tab.entries[0].name())
	var lines []int
	for _, r := range tab.refused {
		lines = append(lines, r.line)
		require.NotEmpty(t, r.reason)
	}
	require.Equal(t, []int{15, 16, 17, 18}, lines)
	require.Len(t, tab.notes, 1)
	require.Contains(t, tab.notes[0], "line 3: MAILTO")
}

func TestSystemCrontab(t *testing.T) {
	t.Parallel()
	const text = "17 * * * * root cd / && run-parts /etc/cron.hourly\n" +
		"25 6 * * * root test -x /usr/sbin/anacron || run-parts /etc/cron.daily\n"
	tab, err := parseCrontab(strings.NewReader(text), true, "UTC")
	require.NoError(t, err)
	require.Len(t, tab.entries, 2)
	require.Equal(t, "root", tab.entries[0].user)
	require.Equal(t, "cd / && run-parts /etc/cron.hourly", tab.entries[0].command)
	_, err = parseCrontab(strings.NewReader(text), false, "UTC")
	require.ErrorContains(t, err, "--system")
	tab, err = parseCrontab(strings.NewReader("0 * * * * root\n"), true, "UTC")
	require.NoError(t, err)
	require.Contains(t, tab.refused[0].reason, "no command behind the user")
}

// FuzzCrontab checks that no line is lost: each is imported, refused, or not an entry.
func FuzzCrontab(f *testing.F) {
	f.Add(UserCrontab)
	f.Add("@daily x\n-*/5 * * * * y\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, system := range []bool{false, true} {
			tab, err := parseCrontab(strings.NewReader(text), system, "UTC")
			if err != nil {
				continue
			}
			lines := 0
			for _, line := range strings.Split(text, "\n") {
				line = strings.TrimSpace(line)
				if line != "" && line[0] != '#' && !cronVariable.MatchString(line) {
					lines++
				}
			}
			require.Equal(t, lines, len(tab.entries)+len(tab.refused))
		}
	})
}
