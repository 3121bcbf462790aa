package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var archiveDaysBehind = prometheus.NewDesc("belfry_archive_days_behind",
	"Days of history that are over and that the archive does not have, at most 15 s old.", nil, nil)

var archiveDaysUnaudited = prometheus.NewDesc("belfry_archive_days_unaudited",
	"Days of history that are archived without an audit because it failed, at most 15 s old.", nil, nil)

// archiveDays is the metrics of the archive. They have no value without an archive, or if the last count failed.
type archiveDays struct{ last atomic.Pointer[archiveSample] }

type archiveSample struct{ behind, unaudited int64 }

// Describe lists the metrics.
func (d *archiveDays) Describe(to chan<- *prometheus.Desc) {
	to <- archiveDaysBehind
	to <- archiveDaysUnaudited
}

// Collect sends the last count.
func (d *archiveDays) Collect(to chan<- prometheus.Metric) {
	if s := d.last.Load(); s != nil {
		to <- prometheus.MustNewConstMetric(archiveDaysBehind, prometheus.GaugeValue, float64(s.behind))
		to <- prometheus.MustNewConstMetric(archiveDaysUnaudited, prometheus.GaugeValue, float64(s.unaudited))
	}
}

// archiveSampleOnce counts the days that the archive does not have, and those that are not audited.
func (n *node) archiveSampleOnce(ctx context.Context) (time.Duration, error) {
	var s archiveSample
	var err error
	if s.behind, err = n.db.Archive().DaysBehind(ctx); err == nil {
		s.unaudited, err = n.db.Archive().DaysUnaudited(ctx)
	}
	if err != nil {
		n.metrics.archive.last.Store(nil)
		return samplePause, err
	}
	n.metrics.archive.last.Store(&s)
	return samplePause, nil
}
