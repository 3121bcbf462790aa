// Package archiving joins the archive, its stores, the archiver and the database by the settings of a node.
package archiving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archive/s3"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// ErrNoArchive says that no archive is set.
var ErrNoArchive = errors.New("no archive; set archive.url in the configuration file or BELFRY_ARCHIVE_URL")

// retry is the pause after a round that failed.
const retry = time.Minute

// Require notes in the database that the archive is required. A node that starts never takes that back: one node
// with other settings would let all nodes drop days that the archive does not have.
func Require(ctx context.Context, required bool, days *postgres.Archive, log *slog.Logger) error {
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

// Open opens the store of the settings. The caller calls close.
func Open(c *config.Archive) (s archive.Store, closeStore func() error, err error) {
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

// Export is the loop that archives days of history. It opens the store in its first round and not when the node
// starts, because a node must work without its archive.
type Export struct {
	config  config.Archive
	days    *postgres.Archive
	session func() uuid.UUID
	log     *slog.Logger
	Audited func(auditor.Report) // see archiver.Archiver
	work    *archiver.Archiver   // nil: not open yet
}

// NewExport returns an Export.
func NewExport(c config.Archive, days *postgres.Archive, session func() uuid.UUID, log *slog.Logger) *Export {
	return &Export{config: c, days: days, session: session, log: log}
}

// Once exports one day.
func (e *Export) Once(ctx context.Context) (pause time.Duration, err error) {
	if err := e.open(ctx); err != nil {
		return retry, err
	}
	if e.session() == uuid.Nil {
		return time.Second, nil // the node has no session yet
	}
	if pause, err = e.work.Once(ctx); err != nil {
		return retry, err
	}
	return pause, nil
}

// open opens the store, and checks that it does not overwrite objects.
func (e *Export) open(ctx context.Context) error {
	if e.work != nil {
		return nil
	}
	store, closeStore, err := Open(&e.config)
	if err != nil {
		return err
	}
	if err := archive.Probe(ctx, store); err != nil {
		return errors.Join(fmt.Errorf("the archive cannot be used: %w", err), closeStore())
	}
	directory := cmp.Or(e.config.Directory, os.TempDir())
	e.work = &archiver.Archiver{
		Days: e.days, Store: store, Session: e.session, Directory: directory, Log: e.log,
		Audit: e.days, Audited: e.Audited, Disk: int64(e.config.Disk) << 20,
		Rate: rate.NewLimiter(rate.Limit(e.config.Rate), e.config.Rate),
	}
	return nil
}
