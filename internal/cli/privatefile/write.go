// Package privatefile writes files that hold keys and passwords.
package privatefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write replaces a file as a whole. No other user can read it at any moment, except the user or group that it was given to,
// such as that of the nodes. If the process is killed, the file has either the old or the new text.
func Write(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".private-*") // created with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails after the rename, which is expected
	_, err = f.Write(text)
	if err := errors.Join(err, keepOwner(name, f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
