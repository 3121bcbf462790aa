package crontab_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/crontab"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"/opt/app/bin/backup --full":                                       "backup",
		"PATH=/x LANG=C /opt/report.py":                                    "report",
		"cd /opt/app && flock -n /tmp/lock php artisan schedule:run":       "artisan",
		"sleep 30; tick":                                                   "tick",
		"[ -x /usr/bin/clean ] && /usr/bin/clean":                          "clean",
		"test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc )": "run-parts",
		"sudo -u www-data /srv/bin/index":                                  "index",
		"env -u HOME A=b nice -n 10 timeout -k 5 30m rsync -a /x /y":       "rsync",
		"bash -c 'cd /x && ./deploy.sh'":                                   "deploy",
		"bash":                                                             "bash",
		"cd /tmp":                                                          "job",
	} {
		require.Equal(t, want, nameOf(t, "0 1 * * * "+line), line)
	}
	for comment, want := range map[string]string{
		"# m h  dom mon dow   command": "backup", // of Debian's template
		"# .---------------- minute (0 - 59)\n# |  .------------- hour (0 - 23)\n# *  *  *  *  * user-name command": "backup",
		"# Nightly backup": "nightly-backup",
	} {
		require.Equal(t, want, nameOf(t, comment+"\n0 1 * * * /opt/backup"), comment)
	}
}

// nameOf returns the name of the only job of a crontab.
func nameOf(t *testing.T, text string) (name string) {
	t.Helper()
	tab, err := crontab.Parse(strings.NewReader(text), false, "UTC")
	require.NoError(t, err)
	for _, j := range (crontab.Options{URL: "http://x.example"}).Jobs(tab) {
		require.Empty(t, name)
		require.Equal(t, "1h", j.Timeout)
		require.Equal(t, map[string]int{"max_attempts": 1}, j.Retry)
		name = j.Name
	}
	return name
}
