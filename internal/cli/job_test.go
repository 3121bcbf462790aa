package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func TestTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	out := a.Good("job", "create", "report", "--cron", "0 2 * * *", "--tz", "Europe/Berlin",
		"--url", "https://example.com/x", "--method", "PUT", "--header", "X-A: b", "--label", "team=web",
		"--payload", `{"big":12345678901234567890}`, "--max-attempts", "7", "--missed", "all", "--priority", "3")
	require.Regexp(t, `^created report job_\w{26}\nnext due \w+ \S+ 02:00:00 CES?T \(0[01]:00:00 UTC\)\n$`, out)

	out = a.Good("job", "get", "report")
	t.Log("\n" + out)
	for _, want := range []string{
		"active", "0 2 * * * in Europe/Berlin", "in words      at 02:00 every day, Europe/Berlin\n",
		"http PUT https://example.com/x", "team=web",
		`{"big":12345678901234567890}`, "7 attempts",
		"missed        all, at most 100, 1s apart, within 30m; after a pause: skip", "priority 3", "UTC)",
	} {
		require.Contains(t, out, want)
	}
	require.Regexp(t, `default +at 02:00 every day, Europe/Berlin`, a.Good("job", "list", "-o", "wide"))
	a.Good("job", "trigger", "report")
	out = a.Good("job", "timeline", "report")
	require.Regexp(t, `DUE Europe/Berlin +DUE UTC +STATE +WHY +ORIGIN`, out)
	require.Regexp(t, `02:00:00 +\S+ \S+ +planned`, out)
	require.Regexp(t, `due +- +trigger`, out)
	require.Regexp(t, `LAST 12 .*\nreport +active +\. +0 2`, a.Good("job", "list", "--recent"))
	out = a.Good("job", "preview", "report", "--from", "2026-03-27T00:00:00Z", "-n", "1")
	require.Regexp(t, `^at 02:00 every day, Europe/Berlin\n\n`, out)
	require.Contains(t, out, "clock change: Sun 2026-03-29 03:00:00 CEST, from +01:00 to +02:00\n")
	out = a.Good("job", "get", "report", "-o", "yaml")
	t.Log("\n" + out)
	require.Contains(t, out, "big: 12345678901234567890\n")
	require.Contains(t, out, "schedule:\n  cron: 0 2 * * *\n  timezone: Europe/Berlin\n")

	out = a.Good("job", "edit", "report", "--every", "15m", "--label", "size=big", "--header", "X-C: d")
	require.Contains(t, out, "changed report version 2")
	out = a.Good("job", "get", "report", "-o", "json")
	for _, want := range []string{
		`"every": "15m"`, `"timezone": "Europe/Berlin"`, `"size": "big"`, `"team": "web"`, `"X-A": "b"`, `"X-C": "d"`,
		"12345678901234567890",
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "cron", "a job has one schedule")

	require.Equal(t, "paused report\n", a.Good("job", "pause", "report", "--note", "why not"))
	require.Contains(t, a.Good("job", "get", "report"), "paused: why not")
	require.Equal(t, "resumed report\n", a.Good("job", "resume", "report"))
	require.Equal(t, "unchanged report: it was not paused\n", a.Good("job", "resume", "report"))
	require.Regexp(t, `^triggered run_\w{40}\n`, a.Good("job", "trigger", "report", "--payload", "[1]"))
	require.Equal(t, "deleted report\n", a.Good("job", "delete", "report"))
	s := a.Belfry("", "job", "get", "report")
	require.Equal(t, "not_found", belfry.CodeOf(s.Failure))
	require.Equal(t, 1, ExitCode(s.Failure))
}

// TestResumedOccurrences: what happens to the occurrences of a pause depends on missed.paused.
func TestResumedOccurrences(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		"skip": "; skipped 4 occurrences of the pause (missed.paused: skip)",
		"once": "; the newest of 4 occurrences of the pause will run (missed.paused: once)",
		"all":  "; 4 occurrences of the pause will be caught up (missed.paused: all)",
	} {
		v := resumedView{Occurrences: 4}
		v.Missed.Paused = policy
		require.Equal(t, want, v.ofThePause())
	}
}

func TestEditByHand(t *testing.T) {
	a := clitest.New(t, New)
	a.Good("job", "create", "a/b: c", "--every", "1h", "--url", "https://example.com/x")
	t.Setenv("VISUAL", "true")
	require.Equal(t, "unchanged a/b: c\n", a.Good("job", "edit", "a/b: c"))
	t.Setenv("VISUAL", "sed -i 's/1h/2h/'")
	require.Equal(t, "changed a/b: c version 2\n", a.Good("job", "edit", "a/b: c"))
	require.Contains(t, a.Good("job", "get", "a/b: c"), "every 2h")
	t.Setenv("VISUAL", "sed -i 's/2h/soon/'")
	s := a.Belfry("", "job", "edit", "a/b: c")
	require.ErrorContains(t, s.Failure, "schedule.every")
	t.Setenv("VISUAL", "false")
	require.ErrorContains(t, a.Belfry("", "job", "edit", "a/b: c").Failure, "$EDITOR")
}

func TestWhatIsWrongIsToldByField(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	s := a.Belfry("", "job", "create", "x", "--cron", "61 * * * *", "--url", "https://example.com", "--queue", "NO")
	require.Equal(t, "invalid", belfry.CodeOf(s.Failure))
	t.Log(s.Failure)
	require.Regexp(t, `(?m)^  schedule\.cron: .+; .+$`, s.Failure.Error())
	require.Regexp(t, `(?m)^  queue: .+; .+$`, s.Failure.Error())
	require.Equal(t, 1, ExitCode(s.Failure))

	a.Key = "bfk_wrong"
	require.Equal(t, "unauthenticated", belfry.CodeOf(a.Belfry("", "key", "list").Failure))
	a.URL = "http://127.0.0.1:1"
	require.ErrorContains(t, a.Belfry("", "key", "list").Failure, "cannot reach http://127.0.0.1:1")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	a := &clitest.API{T: t, NewRoot: New, URL: "http://127.0.0.1:1", Key: "bfk_x"} // none of these calls it
	for _, wrong := range []string{
		"nonsense", "job nonsense", "job get", "job get a b", "job list --nonsense", "job list -o xml",
		"job create", "job create x", "job create x --every 1h",
		"job create x --every 1h --cron x --url y", "job create x --every 1h --url y --payload {",
		"job create x --every 1h --url y --label z", "key create x",
		"apply", "diff", "import crontab x", "dlq redrive", "dlq redrive run_1 --all", "job backfill x", "why",
		"run get",
	} {
		s := a.Belfry("", strings.Fields(wrong)...)
		require.Error(t, s.Failure, wrong)
		require.Equal(t, 2, ExitCode(s.Failure), "%s: %v", wrong, s.Failure)
	}
	for wrong, want := range map[string]string{"jbo": "did you mean job?", "--nonsense": "unknown flag"} {
		_, err := clitest.Run(t, New, wrong)
		require.ErrorContains(t, err, want)
		require.Equal(t, 2, ExitCode(err))
	}
}

// Every command has a short help and an example that names it.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		path := cmd.CommandPath()
		if cmd.HasParent() && cmd.Annotations == nil && !cmd.Hidden {
			require.Contains(t, cmd.Example, path, "%s needs an example", path)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(New("test"))
}

func TestLogin(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	home := t.TempDir()
	env := map[string]string{"HOME": home}
	getenv := func(name string) string { return env[name] }
	cmd := newLogin()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(a.Key + "\n"))
	require.NoError(t, cmd.ParseFlags([]string{"--server", a.URL}))
	cmd.SetContext(t.Context())
	require.NoError(t, saveLogin(cmd, getenv))
	t.Log("\n" + out.String())
	require.Contains(t, out.String(), "key test, role admin, namespace default")
	require.NotContains(t, out.String(), a.Key)
	info, err := os.Stat(filepath.Join(home, ".config", "belfry", "config.yaml"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())

	for _, c := range []struct {
		about               string
		server, key         string
		envServer, envKey   string
		wantServer, wantKey string
	}{
		{about: "the file", wantServer: a.URL, wantKey: a.Key},
		{
			about:     "the environment wins over the file",
			envServer: "http://env", envKey: "e", wantServer: "http://env", wantKey: "e",
		},
		{
			about:  "a flag wins over the environment",
			server: "http://flag", key: "f", envServer: "http://env", envKey: "e",
			wantServer: "http://flag", wantKey: "f",
		},
		{about: "another key for the same server", envKey: "e", wantServer: a.URL, wantKey: "e"},
		{about: "the saved key does not go to another server", server: "http://other"},
	} {
		env["BELFRY_SERVER"], env["BELFRY_KEY"] = c.envServer, c.envKey
		got, err := remote.FindLogin(c.server, c.key, getenv)
		if c.wantKey == "" {
			require.ErrorContains(t, err, "there is no key for http://other", c.about)
			continue
		}
		require.NoError(t, err, c.about)
		require.Equal(t, remote.Login{Server: c.wantServer, Key: c.wantKey, From: got.From}, got, c.about)
	}
	cmd.SetIn(strings.NewReader("bfk_wrong\n"))
	env["BELFRY_SERVER"], env["BELFRY_KEY"] = "", ""
	require.Equal(t, "unauthenticated", belfry.CodeOf(saveLogin(cmd, getenv)))
	got, err := remote.FindLogin("", "", getenv)
	require.NoError(t, err)
	require.Equal(t, a.Key, got.Key, "a wrong key is not saved")
}

// TestLoginSendsNoKeyInClear: a server on another machine needs TLS, unless the user says otherwise. 0.0.0.0 leads to
// this machine too, although it does not look so.
func TestLoginSendsNoKeyInClear(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	elsewhere := strings.Replace(a.URL, "127.0.0.1", "0.0.0.0", 1)
	require.NotEqual(t, a.URL, elsewhere)
	env := map[string]string{"HOME": t.TempDir()}
	getenv := func(name string) string { return env[name] }
	login := func(flags ...string) error {
		cmd := newLogin()
		cmd.SetOut(t.Output())
		cmd.SetErr(t.Output())
		cmd.SetIn(strings.NewReader(a.Key + "\n"))
		require.NoError(t, cmd.ParseFlags(append(flags, "--server", elsewhere)))
		cmd.SetContext(t.Context())
		return saveLogin(cmd, getenv)
	}
	require.ErrorContains(t, login(), "http would send the key to it in clear text; use https, or --insecure")
	_, err := remote.FindLogin("", "", getenv)
	require.ErrorContains(t, err, "no server is named", "nothing is saved")
	env["BELFRY_INSECURE"] = "true"
	require.NoError(t, login())
	env["BELFRY_INSECURE"] = ""
	saved, err := remote.FindLogin("", "", getenv)
	require.NoError(t, err)
	require.True(t, saved.Insecure, "saved with the server")
	saved, err = remote.FindLogin("http://other", "k", getenv)
	require.NoError(t, err)
	require.False(t, saved.Insecure, "and for no other")
	require.NoError(t, login("--insecure"))
}

func TestLabelList(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	require.Empty(t, a.Good("label", "list"))
	a.Good("job", "create", "a", "--every", "1h", "--url", "https://example.com/x", "--label", "team=web")
	require.Regexp(t, `KEY +VALUES +JOBS\nteam +1 +1\n`, a.Good("label", "list"))
	require.Regexp(t, `VALUE +JOBS\nweb +1\n`, a.Good("label", "list", "team", "--prefix", "w"))
	require.Contains(t, a.Good("label", "list", "team", "-o", "json"), `"partial": false`)
	require.ErrorContains(t, a.Belfry("", "label", "list", "--prefix", "w").Failure, "--prefix needs a KEY")
}
