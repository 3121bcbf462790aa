package archiver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// maxProcesses is how many processes may sort in the same directory at the same time.
const maxProcesses = 64

// workspace is an empty directory for the files of one export. Its lock ends with the process, however it ends. So the
// next process that takes the directory removes what the last one left, and several nodes can share a parent directory.
type workspace struct {
	directory string
	lock      *os.File
	limit     int64 // bytes of all files; 0: none
	used      int64
}

var errLocked = errors.New("locked by another process")

// openWorkspace opens a workspace in a directory of its own within a parent. History is in its files, so no other user
// may read or replace them.
func openWorkspace(parent string, limit int64) (*workspace, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	private := filepath.Join(parent, "belfry-archive")
	if err := os.Mkdir(private, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := checkPrivate(private); err != nil {
		return nil, err
	}
	for i := range maxProcesses {
		w := &workspace{directory: filepath.Join(private, strconv.Itoa(i)), limit: limit}
		var err error
		if w.lock, err = lockFile(w.directory + ".lock"); errors.Is(err, errLocked) {
			continue
		}
		if err == nil {
			err = os.RemoveAll(w.directory)
		}
		if err == nil {
			err = os.Mkdir(w.directory, 0o700)
		}
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		return w, nil
	}
	return nil, fmt.Errorf("%d processes use %s for their archive; set another archive.directory", maxProcesses, parent)
}

// checkPrivate returns an error if others can reach a directory, or chose where it is.
func checkPrivate(directory string) error {
	info, err := os.Lstat(directory)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory; remove it, or set another archive.directory", directory)
	case info.Mode().Perm()&0o077 != 0 || !mine(info):
		return fmt.Errorf("other users can reach %s; remove it, or set another archive.directory", directory)
	}
	return nil
}

// close removes the files.
func (w *workspace) close() error {
	if w.lock == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(w.directory), w.lock.Close())
}

// scratchFile is a file of a workspace. Its bytes count until it is removed.
type scratchFile struct {
	file      *os.File // not embedded: io.Copy would use its ReadFrom, which nothing counts
	workspace *workspace
	size      int64
}

func (w *workspace) create() (*scratchFile, error) {
	f, err := os.CreateTemp(w.directory, "*")
	if err != nil {
		return nil, err
	}
	return &scratchFile{file: f, workspace: w}, nil
}

// Write fails when the files of the workspace would have more bytes than they may: a node must not fill the disk of its
// machine.
func (f *scratchFile) Write(p []byte) (int, error) {
	w := f.workspace
	if w.limit > 0 && w.used+int64(len(p)) > w.limit {
		return 0, fmt.Errorf("sorting the day needs more than %d MB in %s; raise archive.disk_mb, if the disk has them",
			w.limit>>20, w.directory)
	}
	n, err := f.file.Write(p)
	f.size, w.used = f.size+int64(n), w.used+int64(n)
	return n, err
}

func (f *scratchFile) remove() error {
	err := os.Remove(f.file.Name())
	if err == nil {
		f.workspace.used -= f.size
		f.size = 0
	}
	return err
}
