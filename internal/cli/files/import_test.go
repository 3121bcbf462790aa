package files_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

func TestImport(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	userCrontab, err := os.ReadFile("../../crontab/testdata/user")
	require.NoError(t, err)
	flags := []string{"import", "crontab", "-", "--url", "https://runner.example.com/{name}", "--prefix", "web1-"}
	s := a.Belfry(string(userCrontab), append(flags, "--dry-run")...)
	t.Log("\n" + s.Out + s.Err)
	require.ErrorContains(t, s.Failure, "4 lines were taken and 4 were not")
	yamlForm := s.Out

	s = a.Belfry(string(userCrontab), flags...)
	t.Log("\n" + s.Out + s.Err)
	require.ErrorContains(t, s.Failure, "4 lines were taken and 4 were not")
	require.Contains(t, s.Out,
		"created   web1-nightly-backup\ncreated   web1-poll\ncreated   web1-mail\ncreated   web1-poll-2\n")
	require.Contains(t, s.Err, "@reboot")
	require.Contains(t, a.Belfry(string(userCrontab), flags...).Out, "0 created, 0 changed, 4 unchanged")
	out := a.Belfry(yamlForm, "apply", "-f", "-")
	require.NoError(t, out.Failure)
	require.Contains(t, out.Out, "4 unchanged", "what a dry run prints is what an import makes")

	got := a.Good("job", "get", "web1-nightly-backup", "-o", "json")
	for _, want := range []string{
		`"cron": "30 2 * * *"`, `"timezone": "America/New_York"`, `"comment": "Nightly backup"`,
		`"url": "https://runner.example.com/web1-nightly-backup"`,
		`"SHELL": "/bin/bash"`, "backup.sh --all", `"overlap": "allow"`,
	} {
		require.Contains(t, got, want)
	}
}
