// Package privatefile writes files that hold keys and passwords.
package privatefile

import (
	"os"
	"path/filepath"
)

// Write replaces a file as a whole. No other user can read the file at any moment. If the process is
// killed, the file has either the old or the new text.
func Write(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".private-*") // created with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails after the rename, which is expected
	if _, err := f.Write(text); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
