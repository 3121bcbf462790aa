package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/admin"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/pgtest"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func TestVersionAndCluster(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	out := a.Good("version")
	require.Regexp(t, `(?m)^version +test$`, out)
	require.Regexp(t, `(?m)^go +go1\.`, out)
	require.Contains(t, out, a.URL+": test")
	require.Contains(t, a.Good("version", "-o", "json"), `"server_version": "test"`)
	dead := &clitest.API{T: t, NewRoot: cli.New, URL: "http://127.0.0.1:1", Key: "bfk_x"}
	require.Contains(t, dead.Good("version"), "cannot reach", "a server that is down is no failure")

	unsigned := a.Belfry("", "version", "--verify", "belfry_0.2.0_linux_amd64.tar.gz")
	require.ErrorContains(t, unsigned.Failure, "has no key of releases")

	out = a.Good("cluster")
	require.Regexp(t, `nodes +0\n`, out)
	require.Contains(t, out, "256 of 256 have no live owner")
	require.Contains(t, a.Good("cluster", "-o", "json"), `"schema_version"`)
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, cli.New, pool)
	a.Good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x")
	a.Good("job", "pause", "report", "--note", "moved")
	a.Good("queue", "set", "imports", "--max-running", "5")
	require.Regexp(t, `limits +at most 5 running\ndue +0\nrunning +0 of 5\n`, a.Good("queue", "get", "imports"))
	require.Regexp(t, `(?s)LOCAL.*\n  1 .*\n  2 `, a.Good("job", "preview", "report", "-n", "2"))
	out := a.Good("audit", "list")
	require.Contains(t, out, "note=moved")
	require.Regexp(t, `\d+ +\S+ \S+ +test · key_\w+… +job\.pause`, out)
	require.Less(t, strings.Index(out, "job.pause"), strings.Index(out, "job.create"), "newest first")
	require.Regexp(t, `^verified: no entry was changed, of \d+\nseals: \d+ seals checked; the first sealed entry is 1\n`+
		`mark of the last one: \d+:\S{44}\n$`, a.Good("audit", "verify"))

	mark := regexp.MustCompile(`\d+:\S{44}`).FindString(a.Good("audit", "verify"))
	require.Contains(t, a.Good("audit", "verify", "--from", mark), "verified")
	s := a.Belfry("", "audit", "verify", "--from", "7:x")
	require.ErrorContains(t, s.Failure, "from: it is not a mark of the audit log")

	_, err := pool.Exec(t.Context(), "UPDATE audit_log SET actor = 'x' WHERE action = 'job.create'")
	require.NoError(t, err)
	s = a.Belfry("", "audit", "verify")
	require.ErrorIs(t, s.Failure, admin.ErrAuditBroken)
	require.Equal(t, 1, cli.ExitCode(s.Failure))
}

// A key is revoked by its name, unless several have it.
func TestRevokeByName(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	for range 2 {
		a.Good("key", "create", "ci", "--role", "viewer")
	}
	s := a.Belfry("", "key", "revoke", "ci")
	require.ErrorContains(t, s.Failure, "more than one key")
	require.Equal(t, 2, strings.Count(s.Failure.Error(), "\n  key_"), "the error lists them")
	require.NotContains(t, a.Good("key", "list"), "revoked")
	_, after, _ := strings.Cut(s.Failure.Error(), "\n  ")
	id := strings.Fields(after)[0]
	a.Good("key", "revoke", id[:len(id)-1])
	a.Good("key", "revoke", "ci")
	require.Equal(t, 2, strings.Count(a.Good("key", "list"), "revoked"))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	s := a.Belfry("", "key", "create", "ci", "--role", "viewer", "--expires-in", "90d")
	require.NoError(t, s.Failure)
	require.Regexp(t, `^bfk_\w+\n$`, s.Out, "the key alone, for scripts")
	viewer := &clitest.API{T: t, NewRoot: cli.New, URL: a.URL, Key: strings.TrimSpace(s.Out)}
	require.Equal(t, "forbidden", belfry.CodeOf(viewer.Belfry("", "key", "list").Failure))
	out := a.Good("key", "list")
	t.Log("\n" + out)
	require.Regexp(t, `key_\w+ +ci +viewer +active`, out)
	id := strings.Fields(strings.Split(out, "\n")[1])[0]
	require.Contains(t, a.Good("key", "revoke", id), "revoked")
	require.Regexp(t, `ci +viewer +revoked`, a.Good("key", "list"))
	require.Equal(t, "not_found", belfry.CodeOf(a.Belfry("", "key", "revoke", "key_nonsense").Failure))
	for _, life := range []string{"0s", "-1h", ""} {
		s = a.Belfry("", "key", "create", "soon", "--role", "viewer", "--expires-in", life)
		require.ErrorContains(t, s.Failure, "expires_in", life)
		require.ErrorContains(t, s.Failure, "write for example 90d", life)
	}
	require.NotContains(t, a.Good("key", "list"), "soon")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	a.Good("job", "create", "report", "--cron", "30 * * * *", "--url", "https://example.com/x")
	a.Good("job", "create", "often", "--every", "15m", "--url", "https://example.com/x", "--queue", "slow")
	out := a.Good("load")
	require.Regexp(t, `(?m)^HOUR UTC +RUNS +PEAK +MINUTES 00 TO 59$`, out)
	require.Regexp(t, `(?m)^\S+ \S+ +5 +2 +[·░▒▓█]{60}$`, out)
	require.Regexp(t, `(?m)^\S+ \S+:30:00 +2 +1 × .*, 1 × `, out)
	require.Contains(t, a.Good("load", "--queue", "slow", "-o", "json"), `"exact": true`)
}

// The lists show what the API counts.
func TestQueuesWorkersAndFilters(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, cli.New, pool)
	a.Good("job", "create", "bill", "--every", "1h", "--queue", "work", "--target", "worker", "--target-config",
		`{"handler":"invoice"}`)
	a.Good("job", "trigger", "bill")
	require.Regexp(t, `(?m)^work +active +1 +\S+ \S+ +0 +0 +0 +0!`, a.Good("queue", "list"))
	require.Contains(t, a.Good("queue", "get", "work"), "no worker asks for handler invoice")
	require.Empty(t, a.Good("queue", "workers", "work"))
	_, err := pool.Exec(t.Context(), `
		INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own, slots, handlers)
		SELECT gen_random_uuid(), 'w-1', namespace_id, id, now(), now() + interval '1 min', false, 5, '{invoice,mail}'
		FROM queue WHERE name = 'work'`)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^w-1 +active +0 of 5 +invoice, mail`, a.Good("queue", "workers", "work"))
	require.Equal(t, "w-1\n", a.Good("queue", "workers", "work", "-o", "name"))

	out := a.Good("audit", "list", "--action", "job.trigger")
	require.Contains(t, out, "job.trigger")
	require.NotContains(t, out, "job.create")
	require.Empty(t, a.Good("audit", "list", "--to", "2020-01-01"))
	require.Contains(t, a.Good("audit", "list", "--from", "2020-01-01", "--actor", "test"), "job.create")

	a.Good("job", "delete", "bill")
	out = a.Good("audit", "list", "--object", "bill", "-o", "wide")
	require.Regexp(t, `(?s)job\.delete +bill.*job\.trigger.*job\.create`, out)
	require.Empty(t, a.Good("audit", "list", "--object", "bil"))
	require.ErrorContains(t, a.Belfry("", "job", "get", "bill").Failure, "belfry audit list --object NAME -o wide")
	id := regexp.MustCompile(`job_\w+`).FindString(out)
	require.Contains(t, a.Good("audit", "list", "--object", id), "job.delete")
	require.ErrorContains(t, a.Belfry("", "job", "get", id).Failure, "if it was deleted, belfry job versions")
	require.Contains(t, a.Good("job", "restore", id), "created bill, paused; start it with: belfry job resume bill")
	require.Regexp(t, `(?s)paused.*invoice`, a.Good("job", "get", "bill"))
	require.ErrorContains(t, a.Belfry("", "job", "restore", id).Failure, "bill")
	a.Good("job", "delete", "bill")
	require.Equal(t, "created bill\n", a.Good("job", "restore", id, "--active"))
	require.NotContains(t, a.Good("job", "get", "bill"), "paused")

	// A one-off that was restored after its time would run a second time immediately.
	a.Good("job", "create", "once", "--at", "2020-01-01T00:00:00Z", "--allow-past", "--target", "noop")
	a.Good("job", "delete", "once")
	id = regexp.MustCompile(`job_\w+`).FindString(a.Good("audit", "list", "--object", "once", "-o", "wide"))
	require.EqualError(t, a.Belfry("", "job", "restore", id).Failure,
		"its time, 2020-01-01T00:00:00Z, has passed, so it would run immediately; --allow-past if you mean it")
	require.NotContains(t, a.Good("job", "list", "-o", "name"), "once")
	require.Contains(t, a.Good("job", "restore", id, "--allow-past"), "created once")
}
