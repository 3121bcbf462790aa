package app

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/app/archiving"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestANodeArchives: a node with an archive exports a day that has ended, and counts the days that it has to.
func TestANodeArchives(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	b := startWith(t, func(c *Config) { c.KeepHistory = 100 * 365 * 24 * time.Hour }) // or the node drops the day first
	c := b.config
	c.Archive = config.Archive{
		URL: "file://" + filepath.Join(directory, "archive"), Directory: filepath.Join(directory, "sorted"), Rate: 1000,
	}
	n := &node{
		config: c, db: b.db, store: b.node.store, member: b.member, log: b.log, metrics: b.metrics, wakes: b.wakes,
	}
	var loops []string
	for _, l := range n.background() {
		loops = append(loops, l.Name)
	}
	require.Subset(t, loops, []string{"archive", "archive_sample"})

	_, err := b.pool.Exec(t.Context(), `CREATE TABLE run_history_20200229 PARTITION OF run_history
		FOR VALUES FROM ('2020-02-29Z') TO ('2020-03-01Z')`)
	require.NoError(t, err)
	_, err = n.archiveSampleOnce(t.Context())
	require.NoError(t, err)
	require.Positive(t, b.metrics.archive.last.Load().behind)
	e := archiving.NewExport(c.Archive, b.db.Archive(), b.member.Session, b.log)
	require.Eventually(t, func() bool { // the first rounds may be before the session of the node
		if _, err = e.Once(t.Context()); err == nil {
			_, err = n.archiveSampleOnce(t.Context())
		}
		return err != nil || b.metrics.archive.last.Load().behind == 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, err)
	manifests, err := filepath.Glob(filepath.Join(directory, "archive", "v1", "manifest", "2020-02-29.*"))
	require.NoError(t, err)
	require.Len(t, manifests, 1)
}

// TestWithoutAnArchive nothing is exported, counted or required.
func TestWithoutAnArchive(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, l := range b.background() {
		require.NotContains(t, l.Name, "archive")
	}
	var required bool
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT required FROM archive_setting`).Scan(&required))
	require.False(t, required)
	require.Nil(t, b.metrics.archive.last.Load())
}

// TestAStartOnlyRequiresTheArchive: a node whose settings say otherwise does not take it back, and says so.
func TestAStartOnlyRequiresTheArchive(t *testing.T) {
	t.Parallel()
	url, pool := pgtest.ServerURL(t)
	c := testConfig(url)
	db, err := postgres.Open(t.Context(), url, c.Connections, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	for _, step := range []struct{ setting, want, info, warning bool }{
		{setting: false, want: false},
		{setting: true, want: true, info: true},
		{setting: true, want: true},
		{setting: false, want: true, warning: true},
	} {
		var log lines
		c.Archive = config.Archive{URL: "file:///nothing", Required: step.setting}
		require.NoError(t, prepare(t.Context(), c, db, slog.New(slog.NewJSONHandler(&log, nil))))
		var required bool
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT required FROM archive_setting`).Scan(&required))
		require.Equal(t, step.want, required)
		require.Equal(t, step.info, strings.Contains(log.String(), "archive is required from now on"), log.String())
		require.Equal(t, step.warning, strings.Contains(log.String(), "run: belfry archive optional"), log.String())
	}
}
