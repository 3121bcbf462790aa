package command

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestVariablesThatSteer: a job cannot make a program of the list run others by a variable, neither when it is saved nor,
// if it was saved before, when it runs. An image may run anything that it has anyway.
func TestVariablesThatSteer(t *testing.T) {
	t.Parallel()
	target := New(Options{})
	config := func(what, name string) string {
		return fmt.Sprintf(`{%s, "env": {%q: "x"}}`, what, name)
	}
	const program, image = `"program": "/usr/local/bin/x"`, `"image": "alpine"`
	for _, name := range []string{
		"PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PERL5OPT", "PERL5LIB", "PERLLIB", "PYTHONPATH",
		"PYTHONSTARTUP", "PYTHONWARNINGS", "RUBYOPT", "NODE_OPTIONS", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH",
		"GLIBC_TUNABLES", "LOCPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "GIT_SSH_COMMAND",
		"TAR_OPTIONS", "PSQLRC", "PSQL_PAGER", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "ZIPOPT", "SSH_ASKPASS",
		"SSH_ASKPASS_REQUIRE", "SUDO_ASKPASS", "MANPAGER", "SYSTEMD_PAGER", "WGETRC", "CURL_HOME", "R_PROFILE_USER",
		"GUILE_LOAD_PATH", "ERL_FLAGS", "VIMINIT", "EXINIT",
	} {
		err := target.Check([]byte(config(program, name)))
		require.ErrorContains(t, err, "env."+name)
		require.ErrorContains(t, err, "can make a program run other programs")
		got := target.Deliver(t.Context(), job.Attempt{Config: config(program, name)})
		require.Equal(t, job.Failed, got.Kind)
		require.False(t, got.Retryable)
		require.Contains(t, got.Message, name)
		require.NoError(t, target.Check([]byte(config(image, name))), name)
	}
	for _, name := range []string{"MODE", "PGPASSWORD", "NODE_ENV", "PYTHONUNBUFFERED", "MY_PATH", "ENVIRONMENT", "PGHOST", "REGION"} {
		require.NoError(t, target.Check([]byte(config(program, name))), name)
	}
}
