package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// TestVersionsAndRollback: a job says who changed it, its versions can be listed and restored, and an edit that changes
// nothing is no change.
func TestVersionsAndRollback(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	a.Good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x", "--description", "for finance",
		"--owner", "team-web")
	require.Equal(t, "unchanged report\n", a.Good("job", "edit", "report", "--every", "1h"))
	require.Equal(t, "changed report version 2\n", a.Good("job", "edit", "report", "--every", "2h"))
	require.Regexp(t, `(?s)^VERSION.*\n2 .*\n1 `, a.Good("job", "versions", "report"))
	require.Contains(t, a.Good("job", "versions", "report", "--show", "1"), "every: 1h")
	require.Equal(t, "restored version 1 of report as version 3\n", a.Good("job", "rollback", "report", "--to", "1"))
	require.Equal(t, "unchanged report version 3\n", a.Good("job", "rollback", "report", "--to", "1"))
	out := a.Good("job", "get", "report")
	for _, want := range []string{"every 1h", "for finance", "team-web", ", by "} {
		require.Contains(t, out, want)
	}
	require.ErrorContains(t, a.Belfry("", "job", "rollback", "report").Failure, "Use --to")
	require.EqualError(t, a.Belfry("", "job", "rollback", "report", "--to", "9").Failure,
		"report has no version 9; belfry job versions report lists them")
	require.ErrorContains(t, a.Belfry("", "job", "rollback", "absent", "--to", "1").Failure, "there is no job absent")
}

// TestOneOffInThePast: it is refused unless it is meant, and then the answer says what happens.
func TestOneOffInThePast(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	create := []string{"job", "create", "old", "--at", "2020-01-01T00:00:00Z", "--url", "https://example.com/x"}
	require.ErrorContains(t, a.Belfry("", create...).Failure, "--allow-past")
	require.Contains(t, a.Good(append(create, "--allow-past")...), "warning schedule.at: 2020-01-01T00:00:00Z has passed")
}

// TestPauseSeveralUntil: pause, resume and trigger take several names, and a pause may have an end.
func TestPauseSeveralUntil(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	for _, name := range []string{"a", "b"} {
		a.Good("job", "create", name, "--every", "1h", "--url", "https://example.com/x")
	}
	end := time.Now().UTC().AddDate(1, 0, 0) //nolint:forbidigo // the API allows ten years
	until, shown := end.Format(time.RFC3339), end.Format("2006-01-02 15:04:05")
	a.Good("job", "pause", "a", "b", "--until", until, "--note", "maintenance")
	for _, name := range []string{"a", "b"} {
		require.Regexp(t, `paused until +\w+ `+shown, a.Good("job", "get", name))
	}
	a.Good("job", "resume", "a", "b")
	require.Regexp(t, `(?s)triggered .*triggered `, a.Good("job", "trigger", "a", "b"))
	out := a.Good("job", "trigger", "a", "--at", until)
	require.Contains(t, out, shown)
	require.Equal(t, "a\nb\n", a.Good("job", "list", "-o", "name"))
	require.ErrorContains(t, a.Belfry("", "job", "create", "c", "--evry", "1h").Failure, "--every")
}
