package docs

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newDirectory returns an empty directory in which the programs and files that blocks name exist.
func newDirectory(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{
		"path/belfry", "path/make", "path/go", "path/crontab", "path/curl", "bin/belfry", "dev/services", ".ci/run",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	for name, text := range map[string]string{
		"etc/crontab": "30 2 * * * root /usr/local/bin/dump --all\n", "password.txt": "s3cret\n", "client.key": "k3y\n",
		"jobs.ndjson": `{"name": "bulk", "schedule": {"at": "2190-01-01T00:00:00Z"},` +
			` "target": {"kind": "http", "config": {"url": "https://example.com/bulk"}}}` + "\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// onAMachine are the words after "sh" of blocks that test/deploy executes; TestRestore of test/cluster executes backup.
var onAMachine = []string{
	"backup", "install", "install-second", "install-files", "install-archive", "install-doctor", "image", "release",
	"kubernetes", "compose-start", "compose-key", "compose-job", "compose-worker",
}

// checkSyntax is for commands that install Belfry on a machine. test/deploy executes them in one of its own.
func checkSyntax(t *testing.T, b block) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-n")
	command.Stdin = strings.NewReader(b.text)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", b, err, output)
	}
	return nil
}

// runShell executes a sh block in a namespace of its own, in a directory that has the files of its page, and returns
// what it printed.
func (c *cluster) runShell(t *testing.T, b block, files map[string]string) (string, error) {
	t.Helper()
	s, dir := c.newSpace(t), newDirectory(t)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(s.local(text)), 0o600))
	}
	script := s.prepare(t, b.text)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	command.Dir = dir
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	command.Env = []string{
		"PATH=" + filepath.Join(dir, "path") + ":/usr/bin:/bin", "HOME=" + dir, asProgram + "=" + repository,
		"BELFRY_SERVER=" + s.url, "BELFRY_KEY=" + s.key, "BELFRY_DATABASE_URL=" + s.database,
		"URL=" + s.url, "BELFRY=" + s.url + "/api/v1", "KEY=" + s.key,
	}
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s\n--- the script was:\n%s", b, err, output, script)
	}
	return string(output), nil
}

var (
	exampleHost = regexp.MustCompile(`https?://[a-z0-9.-]*example\.com`)
	devSink     = regexp.MustCompile(`http://127\.0\.0\.1:8421`)
	jobOf       = regexp.MustCompile(`(?:job (?:get|edit|pause|resume|trigger|backfill|runs|delete|versions|rollback|preview)|why|--job)` +
		` +([a-z][a-z0-9-]*)|/jobs/([a-z][a-z0-9-]*)|"job": "([a-z-]+)"`)
	created     = regexp.MustCompile(`(?:job create +|"name": ")([a-z0-9-]+)`)
	placeholder = regexp.MustCompile(`run_…|\bRUN\b`)
	export      = regexp.MustCompile(`(?m)^export BELFRY_.*$`)
)

// local sends what a block would send to example.com to the receiver.
func (c *cluster) local(text string) string {
	return devSink.ReplaceAllString(exampleHost.ReplaceAllString(text, c.sink), c.sink)
}

// prepare creates the jobs and runs that a block names but does not create, and puts their ids in.
func (s *space) prepare(t *testing.T, text string) string {
	t.Helper()
	text = s.local(export.ReplaceAllString(text, ":"))
	text = strings.NewReplacer(`If-Match: "3"`, `If-Match: "1"`, "/etc/crontab", "etc/crontab").Replace(text)
	known := map[string]bool{}
	for _, name := range created.FindAllStringSubmatch(text, -1) {
		known[name[1]] = true
	}
	for _, found := range jobOf.FindAllStringSubmatch(text, -1) {
		name := found[1] + found[2] + found[3]
		if !known[name] {
			known[name] = true
			s.must(t, http.MethodPost, "/jobs", fmt.Sprintf(`{"name": %q, "schedule": {"cron": "30 2 * * *",
				"timezone": "Europe/Berlin"}, "labels": {"team": "finance"}, "missed": {"created": "skip"},
				"target": {"kind": "http", "config": {"url": %q}}}`, name, s.sink))
		}
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = s.fill(t, line)
	}
	return strings.Join(lines, "\n")
}

// fill replaces the placeholders of one command.
func (s *space) fill(t *testing.T, line string) string {
	t.Helper()
	code, comment, _ := strings.Cut(line, " # ")
	state := "succeeded"
	switch {
	case strings.Contains(code, "dlq ") || strings.Contains(code, "dead-letters/") || strings.Contains(code, "run retry"):
		state = "failed"
	case strings.Contains(code, "cancel"):
		state = "accepted"
	}
	code = placeholder.ReplaceAllStringFunc(code, func(string) string { return s.newRun(t, state, "default") })
	if strings.Contains(code, "$RUN_URL") {
		url, token := s.report(t)
		code = strings.NewReplacer("$RUN_URL", url, "$TOKEN", token).Replace(code)
	}
	if strings.Contains(code, "operation undo OPERATION") {
		code = strings.ReplaceAll(code, "operation undo OPERATION", "operation undo "+s.newRelabel(t))
	}
	for word, make := range map[string]func() string{
		"OPERATION": func() string { return s.newOperation(t) },
		"op_…":      func() string { return s.newOperation(t) },
		"key_…": func() string {
			return regexp.MustCompile(`key_[0-9a-z]+`).FindString(
				s.must(t, http.MethodPost, "/keys", `{"name": "old", "role": "viewer"}`))
		},
	} {
		if strings.Contains(code, word) {
			code = strings.ReplaceAll(code, word, make())
		}
	}
	if strings.Contains(code, "queue pause") || strings.Contains(code, "queue resume") {
		s.newQueue(t, regexp.MustCompile(`queue (?:pause|resume) ([a-z-]+)`).FindStringSubmatch(code)[1])
	}
	if comment != "" {
		return code + " # " + comment
	}
	return code
}

// newOperation starts an operation that takes seconds, so that it can be aborted.
func (s *space) newOperation(t *testing.T) string {
	t.Helper()
	for range 10 {
		s.newRun(t, "failed", "redriven")
	}
	return regexp.MustCompile(`op_[0-9a-z]+`).FindString(
		s.must(t, http.MethodPost, "/dead-letters:redrive", `{"queue": "redriven", "rate": 1}`))
}

// newRelabel changes the labels of a job by an operation, which can be undone.
func (s *space) newRelabel(t *testing.T) string {
	t.Helper()
	s.newRun(t, "failed", "relabelled")
	id := regexp.MustCompile(`op_[0-9a-z]+`).FindString(
		s.must(t, http.MethodPost, "/jobs:relabel", `{"filter": {"queue": "relabelled"}, "set": {"a": "b"}}`))
	require.Eventually(t, func() bool {
		return strings.Contains(s.must(t, http.MethodGet, "/operations/"+id, ""), `"finished"`)
	}, time.Minute, 50*time.Millisecond)
	return id
}

// checkConsole parses the commands of a transcript. Its output is a sample.
func checkConsole(b block) error {
	commands := 0
	for line := range strings.Lines(b.text) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
			commands++
			words := strings.Fields(command)
			if words[0] != "belfry" {
				return fmt.Errorf("%s: only belfry is known, not %s", b, words[0])
			}
			if err := parseCommand(words[1:]); err != nil {
				return fmt.Errorf("%s: %w", b, err)
			}
		}
	}
	if commands == 0 {
		return fmt.Errorf("%s: no line begins with $; use text for what is not code", b)
	}
	return nil
}
