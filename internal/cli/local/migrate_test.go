package local_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

var secretLine = regexp.MustCompile(`(?m)^bfk_\w+$`)

func TestMigratePrintsTheFirstKeyOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	role := pgtest.Role(t, url, "LOGIN")
	out, err := run(t, "migrate", "--database-url", url, "--no-key", "--server-role", "nobody_at_all")
	require.ErrorContains(t, err, "CREATE ROLE nobody_at_all LOGIN PASSWORD '…', then run belfry migrate again")
	require.Contains(t, out, "the schema is up to date")
	require.NotRegexp(t, secretLine, out)

	out, err = run(t, "migrate", "--database-url", url, "--server-role", role)
	require.NoError(t, err)
	require.Contains(t, out, "nodes can log in as "+role)
	_, err = access.KeyHash(secretLine.FindString(out))
	require.NoError(t, err, "%s", out)
	out, err = run(t, "migrate", "--database-url", url, "--server-role", role)
	require.NoError(t, err)
	require.NotRegexp(t, secretLine, out)
	out, err = run(t, "migrate", "--contract", "--database-url", url, "--server-role", role)
	require.NoError(t, err)
	require.Contains(t, out, "0 migrations applied, the schema is up to date")
}

func TestNamespaceCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	out, err := run(t, "namespace", "create", "team-a", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, secretLine, out)
	_, err = run(t, "namespace", "create", "team-a", "--database-url", url)
	require.ErrorContains(t, err, "a namespace named team-a already exists")
	_, err = run(t, "namespace", "create", "Team A", "--database-url", url)
	require.ErrorContains(t, err, "use 1 to 63 of a-z")
	out, err = run(t, "namespace", "list", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^NAME +CREATED UTC +KEEP HISTORY\ndefault +\S+ \S+\s*\nteam-a +\S+ \S+$`, strings.TrimSpace(out))

	set := func(name, keep string) error {
		_, err := run(t, "namespace", "keep-history", name, keep, "--database-url", url)
		return err
	}
	require.NoError(t, set("team-a", "365d"))
	out, err = run(t, "namespace", "list", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^team-a .* 365d$`, out)
	require.ErrorContains(t, set("team-a", "long"), `"long" is not a time; use one such as 365d, or default`)
	require.ErrorContains(t, set("team-a", "3661d"), "use 1d to 3660d")
	require.ErrorContains(t, set("team-b", "365d"), `there is no namespace "team-b"`)
	require.NoError(t, set("team-a", "default"))
	out, err = run(t, "namespace", "list", "-o", "json", "--database-url", url)
	require.NoError(t, err)
	require.NotContains(t, out, "keep_history")

	out, err = run(t, "namespace", "key", "team-a", "--role", "viewer", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "role viewer")
	require.Regexp(t, secretLine, out)
	_, err = run(t, "namespace", "key", "team-b", "--database-url", url)
	require.ErrorContains(t, err, `there is no namespace "team-b"; belfry namespace list shows them`)
	_, err = run(t, "namespace", "key", "team-a", "--role", "king", "--database-url", url)
	require.ErrorContains(t, err, "role")
}
