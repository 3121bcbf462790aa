package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archive/s3"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// archiveRetry is the pause after a round that failed.
const archiveRetry = time.Minute

// requireArchive notes in the database that the archive is required. A node that starts never takes that back: one node
// with other settings would let all nodes drop days that the archive does not have.
func requireArchive(ctx context.Context, required bool, days *postgres.Archive, log *slog.Logger) error {
	if !required {
		stays, err := days.ArchiveRequired(ctx)
		if stays {
			log.Warn("archive stays required, although archive.required is false on this node",
				"fix", "set archive.required: true, or run: belfry archive optional")
		}
		return err
	}
	changed, err := days.RequireArchive(ctx, true)
	if changed {
		log.Info("archive is required from now on: no node drops a day that the archive does not have")
	}
	return err
}

// openArchive opens the store of the settings. The caller calls close.
func openArchive(c *config.Archive) (s archive.Store, closeStore func() error, err error) {
	if directory := c.Local(); directory != "" {
		d, err := disk.Open(directory)
		if err != nil {
			return nil, nil, fmt.Errorf("open the archive: %w", err)
		}
		return archive.Timed(d, archive.DefaultLimits), d.Close, nil
	}
	server, bucket, prefix := c.Bucket()
	s, err = s3.Open(s3.Options{
		URL: server, Region: c.Region, Bucket: bucket, Prefix: prefix, AccessKey: c.AccessKey, SecretKey: c.SecretKey,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open the archive: %w", err)
	}
	return archive.Timed(s, archive.DefaultLimits), func() error { return nil }, nil
}

// export is the loop that archives days of history. It opens the store in its first round and not when the node
// starts, because a node must work without its archive.
type export struct {
	config  config.Archive
	days    *postgres.Archive
	session func() uuid.UUID
	log     *slog.Logger
	audited func(auditor.Report) // may be nil
	work    *archiver.Archiver   // nil: not open yet
}

func newExport(c config.Archive, days *postgres.Archive, session func() uuid.UUID, log *slog.Logger) *export {
	return &export{config: c, days: days, session: session, log: log}
}

func (e *export) once(ctx context.Context) (pause time.Duration, err error) {
	if err := e.open(ctx); err != nil {
		return archiveRetry, err
	}
	if e.session() == uuid.Nil {
		return time.Second, nil // the node has no session yet
	}
	if pause, err = e.work.Once(ctx); err != nil {
		return archiveRetry, err
	}
	return pause, nil
}

// open opens the store, and checks that it does not overwrite objects.
func (e *export) open(ctx context.Context) error {
	if e.work != nil {
		return nil
	}
	store, closeStore, err := openArchive(&e.config)
	if err != nil {
		return err
	}
	if err := archive.Probe(ctx, store); err != nil {
		return errors.Join(fmt.Errorf("the archive cannot be used: %w", err), closeStore())
	}
	directory := cmp.Or(e.config.Directory, os.TempDir())
	e.work = &archiver.Archiver{
		Days: e.days, Store: store, Session: e.session, Directory: directory, Log: e.log,
		Audit: e.days, Audited: e.audited, Disk: int64(e.config.Disk) << 20,
		Rate: rate.NewLimiter(rate.Limit(e.config.Rate), e.config.Rate),
	}
	return nil
}

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
