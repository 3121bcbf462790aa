package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

const userCrontab = `# m h  dom mon dow   command
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
	tab, err := parseCrontab(strings.NewReader(userCrontab), false, "Europe/Berlin")
	require.NoError(t, err)
	env := map[string]string{"SHELL": "/bin/bash"}
	require.Equal(t, []cronEntry{
		{
			line: 7, spec: schedule.Spec{Cron: "30 2 * * *", Timezone: "America/New_York"}, env: env, comment: "Nightly backup",
			command: "/usr/local/bin/backup.sh --all >/dev/null 2>&1",
		},
		{line: 8, spec: schedule.Spec{Cron: "*/5 * * * *", Timezone: "America/New_York"}, env: env, command: "NICE=1 /opt/bin/poll.py"},
		{
			line: 10, spec: schedule.Spec{Cron: "0 9 * * mon-fri", Timezone: "America/New_York"}, env: env,
			command: `mail -s "100% done" boss`, stdin: "Dear boss,\ndone.\n",
		},
		{line: 14, spec: schedule.Spec{Cron: "@daily", Timezone: "Europe/Berlin", Jitter: "10m"}, env: env, command: "/opt/bin/poll.py"},
	}, tab.entries)
	require.Equal(t, []string{"backup", "poll", "mail", "poll"}, []string{
		(&cronEntry{command: tab.entries[0].command}).name(), tab.entries[1].name(), tab.entries[2].name(), tab.entries[3].name(),
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
	const text = "17 * * * * root cd / && run-parts /etc/cron.hourly\n25 6 * * * root test -x /usr/sbin/anacron || run-parts /etc/cron.daily\n"
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

func TestImport(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	flags := []string{"import", "crontab", "-", "--url", "https://runner.example.com/{name}", "--prefix", "web1-"}
	s := a.belfry(userCrontab, append(flags, "--dry-run")...)
	t.Log("\n" + s.out + s.err)
	require.ErrorContains(t, s.failure, "4 lines were taken and 4 were not")
	yamlForm := s.out

	s = a.belfry(userCrontab, flags...)
	t.Log("\n" + s.out + s.err)
	require.ErrorContains(t, s.failure, "4 lines were taken and 4 were not")
	require.Contains(t, s.out, "created   web1-nightly-backup\ncreated   web1-poll\ncreated   web1-mail\ncreated   web1-poll-2\n")
	require.Contains(t, s.err, "@reboot")
	require.Contains(t, a.belfry(userCrontab, flags...).out, "0 created, 0 changed, 4 unchanged")
	out := a.belfry(yamlForm, "apply", "-f", "-")
	require.NoError(t, out.failure)
	require.Contains(t, out.out, "4 unchanged", "what a dry run prints is what an import makes")

	got := a.good("job", "get", "web1-nightly-backup", "-o", "json")
	for _, want := range []string{
		`"cron": "30 2 * * *"`, `"timezone": "America/New_York"`, `"comment": "Nightly backup"`, `"url": "https://runner.example.com/web1-nightly-backup"`,
		`"SHELL": "/bin/bash"`, "backup.sh --all", `"overlap": "allow"`,
	} {
		require.Contains(t, got, want)
	}
}

// FuzzCrontab: no line is lost: each is taken, refused, or no entry at all.
func FuzzCrontab(f *testing.F) {
	f.Add(userCrontab)
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
