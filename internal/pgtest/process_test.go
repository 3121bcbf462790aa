package pgtest

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A test that starts this binary again says in these variables what the child does.
const (
	childTask = "BELFRY_PGTEST_CHILD"
	childSalt = "BELFRY_PGTEST_SALT"
)

// TestChild is what the child processes run.
func TestChild(t *testing.T) {
	t.Parallel()
	switch task := os.Getenv(childTask); task {
	case "":
		t.Skip("only runs in the processes that other tests start")
	case "pass":
		t.Logf("url=%s", URL(t))
	case "fail":
		t.Errorf("url=%s", URL(t))
	case "template":
		s := ownServer(t)
		ran := change(t, s, os.Getenv(childSalt), `SELECT 1`)
		s.give(t, (*server).clone)
		t.Logf("ran=%d", ran.Load())
		t.Logf("template=%s", s.template)
	default:
		t.Fatalf("no task %q", task)
	}
}

// child runs TestChild in a process of its own.
func child(t *testing.T, task string, environment ...string) (output string, err error) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), binary, "-test.run=^TestChild$", "-test.v")
	command.Env = append(append(os.Environ(), childTask+"="+task), environment...)
	out, err := command.CombinedOutput()
	return string(out), err
}

func find(t *testing.T, pattern, output string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(output)
	require.NotNil(t, match, "no %s in:\n%s", pattern, output)
	return match[1]
}

func TestPassedTestLeavesNothing(t *testing.T) {
	t.Parallel()
	output, err := child(t, "pass")
	require.NoError(t, err, output)
	require.False(t, exists(t, ownServer(t), databaseOf(t, find(t, `url=(\S+)`, output))))
}

func TestFailedTestKeepsItsDatabase(t *testing.T) {
	t.Parallel()
	output, err := child(t, "fail")
	require.Error(t, err, output)
	kept := find(t, `psql '(\S+)'`, output)
	require.Equal(t, find(t, `url=(\S+)`, output), kept)
	t.Cleanup(func() { require.NoError(t, ownServer(t).drop(context.Background(), databaseOf(t, kept))) })

	conn, err := pgx.Connect(t.Context(), kept)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `SELECT FROM namespace`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func TestNoServerFails(t *testing.T) {
	t.Parallel()
	output, err := child(t, "pass", variable+"=postgres://belfry:secret@127.0.0.1:1/belfry")
	require.Error(t, err, output)
	require.Contains(t, output, "--- FAIL: TestChild")
	require.Contains(t, output, "no PostgreSQL at postgres://belfry:xxxxx@127.0.0.1:1/belfry ("+variable+")")
	require.Contains(t, output, "run: dev/services up postgres")
	require.NotContains(t, output, "secret")
}

func TestProcessesAtOnceMakeOneTemplate(t *testing.T) {
	t.Parallel()
	const processes = 4
	salt := rand.Text()
	outputs := make([]string, processes)
	errs := make([]error, processes)
	var wait sync.WaitGroup
	for i := range processes {
		wait.Go(func() { outputs[i], errs[i] = child(t, "template", childSalt+"="+salt) })
	}
	wait.Wait()
	all := strings.Join(outputs, "\n")
	for _, err := range errs {
		require.NoError(t, err, all)
	}
	template := find(t, `template=(\S+)`, all)
	t.Cleanup(func() { require.NoError(t, dropTemplate(ownServer(t), template)) })
	require.Equal(t, processes, strings.Count(all, "template="+template), all)
	require.Equal(t, 1, strings.Count(all, "ran=1"), all)
	require.Equal(t, processes-1, strings.Count(all, "ran=0"), all)
}
