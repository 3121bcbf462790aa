package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// prometheus is a Prometheus process that scrapes nodes.
type prometheus struct{ base string }

// series is one series of the answer to a query.
type series struct {
	labels map[string]string
	value  float64
}

// newPrometheus starts a Prometheus that scrapes nodes and evaluates a file of rules, both twice a second.
func newPrometheus(t *testing.T, rules string, nodes []*node) *prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	require.NoError(t, err, "run: dev/need --install prometheus")
	rules, err = filepath.Abs(rules)
	require.NoError(t, err)
	var targets []string
	for _, n := range nodes {
		targets = append(targets, n.listen)
	}
	list, err := json.Marshal(targets)
	require.NoError(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: belfry, static_configs: [{targets: %s}]}]
`, rules, list), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := exec.Command(program, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", listen)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // "signal: killed"
		keepLog(t, "prometheus", log.Name())
		_ = log.Close()
	})
	return &prometheus{base: "http://" + listen}
}

// get asks the API of Prometheus.
func (p *prometheus) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("prometheus answers %s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// query evaluates an expression now. A single number is a series without labels.
func (p *prometheus) query(ctx context.Context, expr string) (out []series, err error) {
	var data struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	for _, x := range data.Result {
		text, _ := x.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
		out = append(out, series{x.Metric, value})
	}
	return out, nil
}

// scraped waits until each of n nodes was scraped this many times.
func (p *prometheus) scraped(t *testing.T, n, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, until(ctx, func() bool {
		found, err := p.query(ctx, fmt.Sprintf(`sum_over_time(up{job="belfry"}[1h]) >= %d`, times))
		return err == nil && len(found) == n
	}), "Prometheus does not scrape the nodes")
}
