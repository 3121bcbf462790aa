package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `(belfry_[a-z_]+)` \\| (\\w+) \\| ([^|]*)\\|")
	description = regexp.MustCompile(`fqName: "(belfry_[a-z_]+)".*constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	labelName   = regexp.MustCompile(`[a-z]+`)
	labelValue  = regexp.MustCompile(`=".*?"`)
	loopName    = regexp.MustCompile(`Name: "(\w+)",`)
	loopTitle   = regexp.MustCompile(`Title: "([^"]+)"`) // a loop logs "<title> failed" and "<title> recovered"
)

// TestEachMetricIsExplained compares docs/reference/metrics.md with what a node registers.
func TestEachMetricIsExplained(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.stop() // its samples would replace the one of the test
	// A family without a value is not gathered, and has no type then.
	b.metrics.Entered(1, job.EndedSucceeded, job.ReasonNone, 1)
	b.metrics.Skipped(uuid.New(), job.ReasonMissed, 1)
	b.metrics.Failed("plan")
	b.metrics.Answered("get-job", 200, time.Second)
	b.metrics.queues.learn([]postgres.QueueName{{Namespace: "n", Queue: "q", ID: 1}})
	b.metrics.depth.last.Store(&depthSample{
		queues: map[queueLabel]*queueSample{{"n", "q"}: {}}, backupAge: new(float64),
	})
	dir := t.TempDir()
	writeCertificate(t, dir+"/cert.pem", dir+"/key.pem")
	certificate, err := readCertificate(dir+"/cert.pem", dir+"/key.pem", b.log)
	require.NoError(t, err)
	b.metrics.certificate.of.Store(certificate)
	b.metrics.archive.last.Store(&archiveSample{})
	b.metrics.auditHeads.last.Store(&[]access.AuditHead{{Namespace: "n"}})
	families, err := b.metrics.registry.Gather()
	require.NoError(t, err)
	types := map[string]string{}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}

	registered := map[string]string{}
	descriptions := make(chan *prometheus.Desc, 1000)
	b.metrics.registry.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		if found := description.FindStringSubmatch(d.String()); found != nil {
			names := labelValue.ReplaceAllString(found[2]+" "+found[3], "")
			labels := labelName.FindAllString(names, -1)
			slices.Sort(labels)
			registered[found[1]] = fmt.Sprint(types[found[1]], labels)
		}
	}
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	explained := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		labels := labelName.FindAllString(row[3], -1)
		slices.Sort(labels)
		explained[row[1]] = fmt.Sprint(row[2], labels)
	}
	require.Equal(t, registered, explained)

	row := func(metric string) string {
		_, row, _ := strings.Cut(string(page), "| `"+metric+"` |")
		row, _, _ = strings.Cut(row, "\n")
		return row
	}
	for _, outcome := range outcomeNames {
		require.Contains(t, row("belfry_attempts_total"), outcome, "an outcome that attempts are counted by")
	}
	loops := 0
	for _, name := range []string{"engine/engine.go", "engine/complete.go", "engine/resolve.go", "path/keep/loop.go"} {
		source, err := os.ReadFile("../" + name)
		require.NoError(t, err)
		for _, l := range loopName.FindAllStringSubmatch(string(source), -1) {
			if l[1] == "prune" {
				continue // it logs failures itself, and goes on
			}
			loops++
			require.Contains(t, row("belfry_loop_failures_total"), l[1], "a loop whose failures are counted")
		}
	}
	require.Greater(t, loops, 10, "the pattern does not find the loops any more")
}

var logCall = regexp.MustCompile(
	`(?:[lL]og\.(?:Info|Warn|Error)(?:\(|Context\(\w+, )|[lL]og\.Log\([\w.()]+, \w+, |\.(?:Failed|Worked)\([\w.]+, )"([^"]+)"`)

// TestEachLogLineIsExplained looks for each message of the nodes in docs/guide/operating.md.
func TestEachLogLineIsExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/operating.md")
	require.NoError(t, err)
	explained := func(message, where string) {
		if !strings.Contains(string(page), "`"+message+"`") {
			t.Errorf("%q, logged by %s, is not in docs/guide/operating.md", message, where)
		}
	}
	explained("loop failed", "loops without a title")
	explained("loop recovered", "loops without a title")
	found := 0
	for _, pattern := range []string{
		"*.go", "../engine/*.go", "../path/*/*.go", "../member/*.go", "../pull/*.go", "../server/*.go", "../server/*/*.go",
		"../target/*/*.go", "../tracing/*.go", "../archiver/*.go",
		"../cli/local/server.go",
	} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, call := range logCall.FindAllStringSubmatch(string(source), -1) {
				found++
				explained(call[1], name)
			}
			for _, title := range loopTitle.FindAllStringSubmatch(string(source), -1) {
				found += 2
				explained(title[1]+" failed", name)
				explained(title[1]+" recovered", name)
			}
		}
	}
	require.Greater(t, found, 25, "the pattern does not find the calls any more")
}
