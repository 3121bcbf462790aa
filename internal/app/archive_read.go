package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belfry-dev/belfry/internal/app/archiving"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/server"
)

// maxDays is how many days a command reads: ten years.
const maxDays = 3660

// ArchiveStatus lists the days of history and where they are, the newest first.
func ArchiveStatus(ctx context.Context, url string, from, to archive.Day) ([]archive.DayState, error) {
	return database.From(ctx, database.At{URL: url}, func(db *postgres.DB) ([]archive.DayState, error) {
		return db.Archive().ArchiveDays(ctx, from, to, maxDays)
	})
}

// ArchiveOptional lets nodes drop days that the archive does not have. It reports whether they were not allowed to.
func ArchiveOptional(ctx context.Context, url string) (changed bool, err error) {
	return database.From(ctx, database.At{URL: url}, func(db *postgres.DB) (bool, error) { return db.Archive().RequireArchive(ctx, false) })
}

// VerifyArchive reads back the days of the archive, compares them with their manifests and with what the database noted
// when they were archived, and calls each with every day.
func VerifyArchive(
	ctx context.Context, c *config.Config, from, to archive.Day, each func(archive.VerifiedDay) error,
) error {
	states, err := ArchiveStatus(ctx, c.DatabaseURL, from, to)
	if err != nil {
		return err
	}
	return withArchive(c, func(a *archive.Archive) error { return a.VerifyDays(ctx, from, to, states, each) })
}

func withArchive(c *config.Config, work func(*archive.Archive) error) error {
	if c.Archive.URL == "" {
		return archiving.ErrNoArchive
	}
	store, closeStore, err := archiving.Open(&c.Archive)
	if err != nil {
		return err
	}
	return errors.Join(work(archive.New(store)), closeStore())
}

// ArchivedRunsParams says which runs to read from the archive.
type ArchivedRunsParams struct {
	Namespace string // name; empty: that of the job's id, or the default one
	Job       string // id, or the name of a job that is not deleted
	From, To  archive.Day
	Limit     int
}

// ArchivedRuns are runs that were read from the archive.
type ArchivedRuns struct {
	Rows  []archive.Run
	Shown []server.RunDetail // as the API showed them
	More  bool               // there are more than the limit
}

// FindArchivedRuns reads the runs of a job that ended on some days.
func FindArchivedRuns(ctx context.Context, c *config.Config, p ArchivedRunsParams) (out ArchivedRuns, err error) {
	q := archive.Query{From: p.From, To: p.To}
	if err := p.find(ctx, c.DatabaseURL, &q); err != nil {
		return out, err
	}
	err = withArchive(c, func(a *archive.Archive) error {
		for r, err := range a.Runs(ctx, q) {
			if err != nil {
				return err
			}
			if len(out.Rows) == p.Limit {
				out.More = true
				return nil
			}
			out.Rows = append(out.Rows, r)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	out.Shown, err = shown(out.Rows)
	return out, err
}

// find finds the namespace and the job.
func (p *ArchivedRunsParams) find(ctx context.Context, url string, q *archive.Query) error {
	return database.With(ctx, database.At{URL: url}, func(db *postgres.DB) (err error) {
		id, notID := job.ParseJobID(p.Job)
		if p.Namespace == "" && notID == nil {
			namespace, err := db.Archive().NamespaceOf(ctx, id)
			if errors.Is(err, job.ErrNotFound) {
				return fmt.Errorf("the database does not know %s any more; name its namespace with --namespace", p.Job)
			}
			q.Namespace, q.Job = namespace, id
			return err
		}
		p.Namespace = cmp.Or(p.Namespace, "default")
		if q.Namespace, err = db.Admin().NamespaceNamed(ctx, p.Namespace); err != nil {
			return err
		}
		if notID == nil {
			q.Job = id
			return nil
		}
		q.Job, err = db.Archive().JobNamed(ctx, q.Namespace, p.Job)
		if errors.Is(err, job.ErrNotFound) {
			return fmt.Errorf("there is no job %q in the namespace %s; a deleted job is named by its id", p.Job, p.Namespace)
		}
		return err
	})
}

// shown returns rows as runs, in the order of their first rows. A run that was retried has several rows.
func shown(rows []archive.Run) ([]server.RunDetail, error) {
	entries := map[string][]job.Entry{}
	var order []string
	for i := range rows {
		e, err := rows[i].Entry()
		if err != nil {
			return nil, err
		}
		id := job.FormatRunID(e.Key)
		if entries[id] == nil {
			order = append(order, id)
		}
		entries[id] = append(entries[id], e)
	}
	out := []server.RunDetail{}
	for _, id := range order {
		slices.SortStableFunc(entries[id], func(a, b job.Entry) int { return b.EndedAt.Compare(a.EndedAt) })
		out = append(out, server.ArchivedRun(entries[id]))
	}
	return out, nil
}
