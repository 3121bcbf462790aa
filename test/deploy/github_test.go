package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type workflow struct {
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Timeout int `yaml:"timeout-minutes"`
		Steps   []struct {
			Uses string `yaml:"uses"`
			Run  string `yaml:"run"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

var pinned = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	return files
}

// TestWorkflowsCallWhatExists: their commands are programs and targets of this repository, which tests execute.
func TestWorkflowsCallWhatExists(t *testing.T) {
	t.Parallel()
	all := ""
	for _, file := range workflows(t) {
		var w workflow
		readYAML(t, file, &w)
		require.Equal(t, map[string]string{"contents": "read"}, w.Permissions, "%s: rights that it does not need", file)
		for name, job := range w.Jobs {
			require.Positive(t, job.Timeout, "%s: %s has no time limit", file, name)
			for _, step := range job.Steps {
				if step.Uses != "" {
					require.Regexp(t, pinned, step.Uses, "%s: an action that is not pinned to a commit", file)
					continue
				}
				require.NotContains(t, step.Run, "\n", "%s: scripts belong into the repository", file)
				checkCommand(t, file, step.Run)
				all += step.Run + "\n"
			}
		}
	}
	require.Contains(t, all, ".ci/run\n")
	require.Contains(t, all, "make release ")
	// What .ci/run leaves out.
	for _, long := range []string{"test-race ", "test-pg18 ALL=1", "cluster-all", "schemathesis", "test-ui AXE=all", "test-deploy-all"} {
		require.Contains(t, all, "make "+long)
	}
}

// checkCommand fails if a command is neither a program of the repository, nor a target of make, nor git.
func checkCommand(t *testing.T, file, command string) {
	t.Helper()
	words := strings.Fields(command)
	require.NotEmpty(t, words, file)
	switch words[0] {
	case "git":
	case "make":
		makefile, err := os.ReadFile("../../Makefile")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(words[1])+`:`, string(makefile), "%s: %s", file, command)
	default:
		info, err := os.Stat("../../" + words[0])
		require.NoError(t, err, "%s: %s", file, command)
		require.NotZero(t, info.Mode()&0o111, "%s: %s is not executable", file, words[0])
	}
}

func TestWorkflowsByActionlint(t *testing.T) {
	t.Parallel()
	tool := os.Getenv("ACTIONLINT")
	if tool == "" {
		t.Skip("ACTIONLINT is not set; make test-deploy builds it")
	}
	run(t, tool, append([]string{"-no-color", "-shellcheck=", "-pyflakes="}, workflows(t)...)...)
	// It finds what is wrong.
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: x, usez: y}]}}\n"), 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "-no-color", broken).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "usez")
}

// TestIssueForms: a form that GitHub cannot read is not shown at all.
func TestIssueForms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		var form struct {
			Name        string `yaml:"name"`
			Description string `yaml:"description"`
			Body        []struct {
				Type       string            `yaml:"type"`
				ID         string            `yaml:"id"`
				Attributes map[string]string `yaml:"attributes"`
			} `yaml:"body"`
		}
		readYAML(t, file, &form)
		require.NotEmpty(t, form.Name, file)
		require.NotEmpty(t, form.Description, file)
		ids := []string{}
		for _, item := range form.Body {
			switch item.Type {
			case "markdown":
				require.NotEmpty(t, item.Attributes["value"], file)
			case "textarea":
				require.NotEmpty(t, item.Attributes["label"], file)
				require.Regexp(t, `^[a-z]+$`, item.ID, file)
				require.False(t, slices.Contains(ids, item.ID), "%s: %s twice", file, item.ID)
				ids = append(ids, item.ID)
			default:
				t.Fatalf("%s: type %q", file, item.Type)
			}
		}
		require.NotEmpty(t, ids, file)
	}
	for _, named := range []string{"SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		_, err := os.Stat("../../" + named)
		require.NoError(t, err)
	}
}
