package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var archiveDaysBehind = prometheus.NewDesc("belfry_archive_days_behind",
	"Days of history that are over and that the archive does not have, at most 15 s old.", nil, nil)

// daysBehind is the metric of the archive. It has no value without an archive, or if the last count failed.
type daysBehind struct{ last atomic.Pointer[int64] }

// Describe lists the metric.
func (d *daysBehind) Describe(to chan<- *prometheus.Desc) { to <- archiveDaysBehind }

// Collect sends the last count.
func (d *daysBehind) Collect(to chan<- prometheus.Metric) {
	if n := d.last.Load(); n != nil {
		to <- prometheus.MustNewConstMetric(archiveDaysBehind, prometheus.GaugeValue, float64(*n))
	}
}

// archiveSampleOnce counts the days that the archive does not have.
func (n *node) archiveSampleOnce(ctx context.Context) (time.Duration, error) {
	behind, err := n.db.Archive().DaysBehind(ctx)
	if err != nil {
		n.metrics.archive.last.Store(nil)
		return samplePause, err
	}
	n.metrics.archive.last.Store(&behind)
	return samplePause, nil
}
