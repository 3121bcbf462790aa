package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestALongOutageIsReportedMeanwhile: otherwise a cluster that never catches up would not report it.
func TestALongOutageIsReportedMeanwhile(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	e := &Engine{Options: Options{Log: slog.New(slog.NewJSONHandler(log, nil))}}
	e.noteOutage(job.Outage{Runs: 1})
	e.reportOutage(time.Hour, time.Hour)
	require.Empty(t, log.String())
	e.noteOutage(job.Outage{Runs: 2})
	e.reportOutage(time.Hour, 0)
	require.Contains(t, log.String(), `"caught_up":3`)
	e.reportOutage(0, 0)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "reported once")
}
