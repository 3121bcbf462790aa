package archiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
)

// Days is the store as the archiver sees it.
type Days interface {
	// CloseDays closes the days that are over and quiet, and returns how many there were.
	CloseDays(ctx context.Context) (int, error)
	// TakeDay makes a session the owner of a closed day that has no live owner, or returns job.ErrNotFound. It prefers days
	// that were not tried, and then those that were not tried for longest.
	TakeDay(ctx context.Context, session uuid.UUID) (archive.Task, error)
	// ReadRuns reads the rows of the day from a page of its table on, and returns the page to continue from, or -1.
	ReadRuns(ctx context.Context, d archive.Day, page int64) (rows []archive.Placed[archive.Run], next int64, err error)
	// ReadSkips reads what cursors skipped, after a row (nil: from the first on), and no rows at the end.
	ReadSkips(ctx context.Context, d archive.Day, after *archive.Skip) ([]archive.Placed[archive.Skip], error)
	// SumDay counts the rows of the day and adds up the hashes of their keys.
	SumDay(ctx context.Context, d archive.Day) (runs, skips archive.Sum, err error)
	// FinishDay notes the outcome of a day, if its task still belongs to the session.
	FinishDay(ctx context.Context, t archive.Task, r archive.Result) error
}

// Archiver exports days.
type Archiver struct {
	Days      Days
	Store     archive.Store
	Session   func() uuid.UUID
	Directory string        // for sorted files: see workspace
	Disk      int64         // bytes that those files may have; 0: no limit
	Rate      *rate.Limiter // rows per second; nil: no limit
	Log       *slog.Logger
	// Step is called before each step, with its name. Tests end the round there. May be nil.
	Step func(name string) error
	// Progress is called before each step of a day, and while rows are read. May be nil.
	Progress func(Progress)
	// Audit judges each day that is exported, and calls Audited with what it finds. Both may be nil.
	Audit   Auditor
	Audited func(auditor.Report)
}

// The pauses between rounds.
const (
	idlePause = 10 * time.Minute
	nextPause = time.Second // after a day: there may be another one
)

// Once closes days that are over and exports one.
func (a *Archiver) Once(ctx context.Context) (time.Duration, error) {
	if err := a.closeDays(ctx); err != nil {
		return 0, err
	}
	t, err := a.take(ctx)
	if errors.Is(err, job.ErrNotFound) {
		return idlePause, nil
	}
	if err != nil {
		return 0, err
	}
	return nextPause, a.archive(ctx, t)
}

func (a *Archiver) closeDays(ctx context.Context) error {
	if err := a.step("close"); err != nil {
		return err
	}
	closed, err := a.Days.CloseDays(ctx)
	if closed > 0 {
		a.Log.Info("closed days of history", "days", closed)
	}
	return err
}

func (a *Archiver) take(ctx context.Context) (archive.Task, error) {
	if err := a.step("take"); err != nil {
		return archive.Task{}, err
	}
	return a.Days.TakeDay(ctx, a.Session())
}

// archive exports a day, and releases it if that fails, so that other days come before it is retried.
func (a *Archiver) archive(ctx context.Context, t archive.Task) error {
	err := a.exportDay(ctx, t)
	if err == nil || ctx.Err() != nil || errors.Is(err, job.ErrConflict) {
		return err // on shutdown, the end of the session releases it
	}
	released := a.Days.FinishDay(ctx, t, archive.Result{Failed: true, AuditFailed: errors.Is(err, errAudit)})
	if errors.Is(released, job.ErrConflict) {
		return err // it has another owner, or it was noted and only the reply was lost
	}
	return errors.Join(err, released)
}

// exportDay exports a day, and notes its outcome.
func (a *Archiver) exportDay(ctx context.Context, t archive.Task) error {
	e := export{Archiver: a, task: t, archive: archive.New(a.Store)}
	m, err := e.run(ctx)
	r := archive.Result{Manifest: m, AuditFailed: e.auditError != nil}
	if errors.Is(err, archive.ErrDiffers) {
		a.Log.Warn("day is archived again: an object has another content", "day", t.Day.String(),
			"generation", t.Generation, "error", err)
		r.Again = true
	} else if err != nil {
		return fmt.Errorf("archive %s: %w", t.Day, err)
	}
	if err := a.step("finish"); err != nil {
		return err
	}
	if err := a.Days.FinishDay(ctx, t, r); err != nil {
		return fmt.Errorf("archive %s: %w", t.Day, err)
	}
	if r.Again {
		return nil
	}
	runs := m.Sum(archive.Runs).Rows
	a.Log.Info("archived a day of history", "day", t.Day.String(), "runs", runs, "files", len(m.Files))
	e.report("archived")
	return nil
}

func (a *Archiver) step(name string) error {
	if a.Step == nil {
		return nil
	}
	return a.Step(name)
}

// export is the work on one day.
type export struct {
	*Archiver
	task        archive.Task
	archive     *archive.Archive
	workspace   *workspace
	runs, skips archive.Sum // of what was read
	files       []archive.File
	digests     *sorter[jobDigest, *jobDigest]
	found       int64 // by the audit
	auditError  error // the audit has failed too often, and the day is archived without it
}

// step reports the step. Tests end the export there.
func (e *export) step(name string) error {
	e.report(name)
	return e.Archiver.step(name)
}

func (e *export) report(step string) {
	if e.Progress != nil {
		e.Progress(Progress{Day: e.task.Day, Step: step, Runs: e.runs.Rows, Found: e.found, AuditError: e.auditError})
	}
}

func (e *export) run(ctx context.Context) (m archive.Manifest, err error) {
	if e.workspace, err = openWorkspace(e.Directory, e.Disk); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, e.workspace.close()) }()
	if err := e.exportRuns(ctx); err != nil {
		return m, err
	}
	if err := e.exportSkips(ctx); err != nil {
		return m, err
	}
	if m, err = archive.NewManifest(e.task.Day, e.task.Generation, e.files); err != nil {
		return m, err
	}
	if err := e.step("manifest"); err != nil {
		return m, err
	}
	text, err := m.Encode()
	if err != nil {
		return m, err
	}
	if err := archive.PutOnce(ctx, e.Store, m.Name(), text); err != nil {
		return m, err
	}
	if err := e.verify(ctx, &m); err != nil {
		return m, err
	}
	if err := e.sweep(ctx, &m); err != nil {
		return m, err
	}
	return m, e.audit(ctx)
}

func (e *export) exportRuns(ctx context.Context) error {
	if err := e.step("read runs"); err != nil {
		return err
	}
	s := newSorter[archive.Run](e.workspace)
	for page := int64(0); page >= 0; {
		rows, next, err := e.Days.ReadRuns(ctx, e.task.Day, page)
		if err != nil {
			return err
		}
		for _, r := range rows {
			e.runs.Add(&r.Row)
			if err := s.add(r); err != nil {
				return err
			}
		}
		if err := e.pace(ctx, len(rows)); err != nil {
			return err
		}
		e.report("read runs")
		page = next
	}
	return write(ctx, e, e.digestOf(s.sorted()), archive.NewRunWriter)
}

func (e *export) exportSkips(ctx context.Context) error {
	if err := e.step("read skips"); err != nil {
		return err
	}
	s := newSorter[archive.Skip](e.workspace)
	for after := (*archive.Skip)(nil); ; {
		rows, err := e.Days.ReadSkips(ctx, e.task.Day, after)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return write(ctx, e, s.sorted(), archive.NewSkipWriter)
		}
		for _, r := range rows {
			e.skips.Add(&r.Row)
			if err := s.add(r); err != nil {
				return err
			}
		}
		after = &rows[len(rows)-1].Row
		if err := e.pace(ctx, len(rows)); err != nil {
			return err
		}
	}
}

// pace waits so that rows are read at no more than the rate.
func (e *export) pace(ctx context.Context, rows int) error {
	if e.Rate == nil {
		return ctx.Err()
	}
	for rows > 0 {
		n := min(rows, e.Rate.Burst())
		if err := e.Rate.WaitN(ctx, n); err != nil {
			return err
		}
		rows -= n
	}
	return nil
}

// write writes sorted rows in parts. A part ends with its namespace, or when it is full.
func write[T any, R archive.Row[T]](
	ctx context.Context, e *export, rows iter.Seq2[*archive.Placed[T], error],
	open func(io.Writer, archive.Place) *archive.Writer[T, R],
) error {
	p := archive.Place{Day: e.task.Day, Generation: e.task.Generation}
	var part *part[T, R]
	defer func() { part.remove() }()
	for r, err := range rows {
		if err != nil {
			return err
		}
		if part != nil && (p.Namespace != r.Namespace || part.w.Full(&r.Row)) {
			if err := part.put(ctx, e); err != nil {
				return err
			}
			part = nil
		}
		if part == nil {
			p.Number++
			if p.Namespace != r.Namespace || p.Number == 1 {
				p.Namespace, p.Number = r.Namespace, 1
			}
			if part, err = newPart(e.workspace, p, open); err != nil {
				return err
			}
		}
		if err := part.w.Write(&r.Row); err != nil {
			return err
		}
	}
	if part == nil {
		return nil
	}
	return part.put(ctx, e)
}

// part is a part that is being written to a local file: its name and size are known when it is complete.
type part[T any, R archive.Row[T]] struct {
	file *scratchFile
	w    *archive.Writer[T, R]
}

func newPart[T any, R archive.Row[T]](
	w *workspace, p archive.Place, open func(io.Writer, archive.Place) *archive.Writer[T, R],
) (*part[T, R], error) {
	f, err := w.create()
	if err != nil {
		return nil, err
	}
	return &part[T, R]{f, open(f, p)}, nil
}

func (p *part[T, R]) put(ctx context.Context, e *export) error {
	if err := e.step("part"); err != nil {
		return err
	}
	f, err := p.w.Close()
	if err != nil {
		return err
	}
	if err := archive.PutFile(ctx, e.Store, f, p.file.file); err != nil {
		return err
	}
	e.files = append(e.files, f)
	p.remove()
	return nil
}

func (p *part[T, R]) remove() {
	if p != nil {
		_ = p.file.file.Close() // closed twice, or read only by now
		_ = p.file.remove()     // the directory is removed later
	}
}

// verify reads the day back and compares it with what was read from the table, and that with the table.
func (e *export) verify(ctx context.Context, m *archive.Manifest) error {
	if err := e.step("verify"); err != nil {
		return err
	}
	v, err := e.archive.Verify(ctx, m.Name())
	if err != nil {
		return err
	}
	for _, f := range v.Findings {
		if e.mine(m, f.Object) {
			return fmt.Errorf("%s: %s", f.Object, f.Problem)
		}
	}
	if m.Sum(archive.Runs) != e.runs || m.Sum(archive.Skips) != e.skips {
		return errors.New("the files do not have the rows that were read")
	}
	runs, skips, err := e.Days.SumDay(ctx, e.task.Day)
	if err != nil {
		return err
	}
	if runs.Rows != e.runs.Rows || runs.Keys != e.runs.Keys {
		return fmt.Errorf("the table has %d runs (hash %s), %d were read (hash %s)", runs.Rows, runs.Keys, e.runs.Rows, e.runs.Keys)
	}
	if skips.Rows != e.skips.Rows || skips.Keys != e.skips.Keys {
		return fmt.Errorf("the table has %d skips (hash %s), %d were read (hash %s)", skips.Rows, skips.Keys, e.skips.Rows, e.skips.Keys)
	}
	return nil
}

// mine reports whether the manifest names an object. Others are of tries that were interrupted, and sweep removes them.
func (e *export) mine(m *archive.Manifest, object string) bool {
	for i := range m.Files {
		if m.Files[i].Name == object {
			return true
		}
	}
	return false
}

// sweep removes what interrupted tries and earlier generations left. It is before finish, so that it is repeated if the
// node dies. A node that has lost the day removes nothing of its successor: see archive.Orphans.
func (e *export) sweep(ctx context.Context, m *archive.Manifest) error {
	if err := e.step("sweep"); err != nil {
		return err
	}
	orphans, err := e.archive.Orphans(ctx, m)
	if err != nil {
		return err
	}
	for _, name := range orphans {
		if err := e.Store.Delete(ctx, name); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}
