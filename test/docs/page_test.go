package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryDecisionIsListed: the index of decisions names each page.
func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	index := readPage(t, "docs/decisions/README.md")
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/0*.md"))
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	for _, f := range files {
		name := filepath.Base(f)
		title, _, _ := strings.Cut(readPage(t, "docs/decisions/"+name), "\n")
		_, title, _ = strings.Cut(title, ". ")
		if !strings.Contains(index, "["+title+"]("+name+")") {
			t.Errorf("docs/decisions/README.md does not list [%s](%s)", title, name)
		}
	}
}

// TestEveryPackageIsExplained: the architecture names each package below internal.
func TestEveryPackageIsExplained(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/architecture.md")
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && !strings.Contains(page, "| `internal/"+e.Name()+"` |") {
			t.Errorf("docs/architecture.md does not explain internal/%s", e.Name())
		}
	}
}

var (
	namedPath = regexp.MustCompile("`((?:api|cmd|deploy|dev|docs|internal|sdk|test|web)/[A-Za-z0-9_./-]+)`")
	link      = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
)

// TestEveryPathExists: what pages name and link to is there. Paths are relative to the root, links to their page.
func TestEveryPathExists(t *testing.T) {
	t.Parallel()
	for _, name := range pages(t) {
		if name == "CHANGELOG.md" {
			continue // history
		}
		exists := func(path string) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which does not exist", name, path)
			}
		}
		for _, m := range namedPath.FindAllStringSubmatch(readPage(t, name), -1) {
			if !strings.Contains(m[1], "NAME") { // stands for any of several
				exists(m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(readPage(t, name), -1) {
			exists(filepath.Join(filepath.Dir(name), m[1]))
		}
	}
}

// glossary has the words with one meaning everywhere.
var glossary = []string{
	"job", "schedule", "occurrence", "run", "attempt", "outcome", "due time", "run time", "cursor", "wheel", "node",
	"session", "partition", "owner", "epoch", "lease", "permit", "capacity", "candidate", "waitlist", "feed",
	"waiter report", "deferred", "`needs_sweep`", "`free_attempts`", "undelivered", "unresolved claim",
	"`idempotent_response`", "backpressure", "breaker", "dead letter", "redrive", "missed", "overlap", "namespace", "key",
	"slot", "queue", "worker", "target", "ledger", "fence", "rescue", "sweep",
}

// states has the states of a run.
var states = []string{
	"pending", "due", "running", "accepted", "retrying", "succeeded", "failed", "cancelled", "skipped",
}

// TestEveryWordIsExplained: the page of concepts has a row for each word and each state.
func TestEveryWordIsExplained(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/guide/concepts.md")
	for _, word := range glossary {
		if !strings.Contains(page, "\n| "+word+" ") && !strings.Contains(page, "\n| "+word+",") {
			t.Errorf("docs/guide/concepts.md does not explain %s", word)
		}
	}
	for _, state := range states {
		if !strings.Contains(page, "\n| `"+state+"` |") {
			t.Errorf("docs/guide/concepts.md does not explain the state %s", state)
		}
	}
}

// TestEveryDependencyIsExplained: the page of dependencies has a row for each module that go.mod requires directly, and
// for no other.
func TestEveryDependencyIsExplained(t *testing.T) {
	t.Parallel()
	page, _, _ := strings.Cut(readPage(t, "docs/reference/dependencies.md"), "## Modules that are not maintained")
	var listed, required []string
	for line := range strings.Lines(page) {
		if module, ok := strings.CutPrefix(line, "| `"); ok {
			module, _, _ = strings.Cut(module, "`")
			listed = append(listed, module)
		}
	}
	for line := range strings.Lines(readPage(t, "go.mod")) {
		module, found := strings.CutPrefix(line, "\t")
		if name, version, ok := strings.Cut(module, " "); found && ok && strings.HasPrefix(version, "v") &&
			!strings.Contains(version, "// indirect") {
			required = append(required, name)
		}
	}
	require.Greater(t, len(required), 30)
	require.ElementsMatch(t, required, listed)
}

// TestServersHaveNoDev: the programs of packages and images are built without belfry dev and what only it needs.
func TestServersHaveNoDev(t *testing.T) {
	t.Parallel()
	deps := func(tags string) string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-C", "../..", "-deps", "-tags", tags, "./cmd/belfry").Output()
		require.NoError(t, err)
		return string(out)
	}
	all, server := deps(""), deps("server")
	for _, module := range []string{"github.com/fergusstrange/embedded-postgres", "github.com/lib/pq", "github.com/xi2/xz"} {
		require.Contains(t, all, "\n"+module+"\n")
		require.NotContains(t, server, module)
	}
	out, err := exec.CommandContext(t.Context(), "go", "vet", "-C", "../..", "-tags", "server", "./internal/cli/local").CombinedOutput()
	require.NoError(t, err, string(out))
}
