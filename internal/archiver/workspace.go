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
}

var errLocked = errors.New("locked by another process")

func openWorkspace(parent string) (*workspace, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	for i := range maxProcesses {
		w := &workspace{directory: filepath.Join(parent, strconv.Itoa(i))}
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
	return nil, fmt.Errorf("%d processes use %s for their archive; set another directory", maxProcesses, parent)
}

// close removes the files.
func (w *workspace) close() error {
	if w.lock == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(w.directory), w.lock.Close())
}
