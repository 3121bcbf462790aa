// Package disk keeps an archive in a directory.
package disk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/archive"
)

// Store is a directory. Close it after use.
type Store struct{ root *os.Root }

// partial is where objects are written before they get their name.
const partial = ".partial"

// stale is the age at which a file in partial was left by a process that died.
const stale = 24 * time.Hour

// Open returns the store in a directory, which it creates.
func Open(directory string) (*Store, error) {
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	s := &Store{root}
	if err := root.MkdirAll(partial, 0o750); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if err := s.removeStale(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Close closes the directory.
func (s *Store) Close() error { return s.root.Close() }

// removeStale removes what processes that died left in partial. The age is measured by the clock of the file system,
// which may be another machine's.
func (s *Store) removeStale() error {
	f, name, err := s.create()
	if err != nil {
		return err
	}
	defer s.root.Remove(name) //nolint:errcheck // it is stale in a day
	now, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	files, err := fs.ReadDir(s.root.FS(), partial)
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil || now.ModTime().Sub(info.ModTime()) < stale {
			continue // another process has removed it, or writes it
		}
		if err := s.root.Remove(path.Join(partial, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// create creates a file in partial.
func (s *Store) create() (*os.File, string, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, "", err
	}
	name := path.Join(partial, hex.EncodeToString(id[:]))
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	return f, name, err
}

// Put writes an object: to a file without a name of its own, which gets its name when it is complete and on disk. A
// link fails if the name is taken, so no object is overwritten.
func (s *Store) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	f, temporary, err := s.create()
	if err != nil {
		return err
	}
	defer s.root.Remove(temporary) //nolint:errcheck // removeStale removes it later
	n, err := io.Copy(f, io.LimitReader(body, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("%s has %d bytes, expected %d", name, n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := s.mkdir(path.Dir(name)); err != nil {
		return err
	}
	switch err := s.root.Link(temporary, name); {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s: %w", name, archive.ErrExists)
	case err != nil:
		return err
	}
	return s.sync(path.Dir(name))
}

// mkdir creates a directory and those above it. A directory is on disk when the one above it is.
func (s *Store) mkdir(directory string) error {
	if info, err := s.root.Stat(directory); err == nil && info.IsDir() {
		return nil
	}
	if err := s.root.MkdirAll(directory, 0o750); err != nil {
		return err
	}
	for directory != "." {
		directory = path.Dir(directory)
		if err := s.sync(directory); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sync(directory string) error {
	d, err := s.root.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get reads a part of an object.
func (s *Store) Get(_ context.Context, name string, offset, n int64) (io.ReadCloser, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, missing(name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, n), f}, nil
}

// Size returns the size of an object.
func (s *Store) Size(_ context.Context, name string) (int64, error) {
	if err := archive.CheckName(name); err != nil {
		return 0, err
	}
	info, err := s.root.Stat(name)
	if err != nil {
		return 0, missing(name, err)
	}
	return info.Size(), nil
}

// Delete removes an object.
func (s *Store) Delete(_ context.Context, name string) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, archive.ErrNotFound)
	}
	return err
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// List returns names with a prefix. It reads only directories that may have some.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	l := lister{files: s.root.FS(), prefix: prefix, after: after, limit: limit}
	if err := l.walk(ctx, "."); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return l.names, nil
}

type lister struct {
	files         fs.FS
	prefix, after string
	limit         int
	names         []string
}

func (l *lister) walk(ctx context.Context, directory string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	found, err := fs.ReadDir(l.files, directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	names := make([]string, 0, len(found))
	for _, f := range found {
		name := path.Join(directory, f.Name())
		if f.IsDir() {
			name += "/" // so that the order is that of whole names
		}
		if f.Name()[0] != '.' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := l.visit(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) visit(ctx context.Context, name string) error {
	if directory, ok := strings.CutSuffix(name, "/"); ok {
		mayHave := strings.HasPrefix(name, l.prefix) || strings.HasPrefix(l.prefix, name)
		if passed := name < l.after && !strings.HasPrefix(l.after, name); !mayHave || passed {
			return nil
		}
		return l.walk(ctx, directory)
	}
	if !strings.HasPrefix(name, l.prefix) || name <= l.after {
		return nil
	}
	if len(l.names) == l.limit {
		return errEnough
	}
	l.names = append(l.names, name)
	return nil
}
