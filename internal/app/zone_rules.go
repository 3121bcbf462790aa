package app

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// zoneSources are where package time looks for time zone rules.
func zoneSources() []string { return []string{os.Getenv("ZONEINFO"), "/usr/share/zoneinfo"} }

// zoneRules identifies the time zone rules of this process: by other rules, the same schedule has other occurrences. It
// hashes the files that they are read from, and the version of Go, which brings rules for machines without any.
func zoneRules(sources []string) string {
	h := sha256.New()
	_, _ = h.Write([]byte(runtime.Version()))
	for _, source := range sources {
		// What cannot be read has no effect on schedules either.
		_ = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // see above
			case entry.IsDir() && (entry.Name() == "posix" || entry.Name() == "right"):
				return fs.SkipDir // copies of all zones that schedules cannot use
			case entry.IsDir():
				return nil
			}
			content, _ := os.ReadFile(path) //nolint:gosec // where package time reads it too
			_, _ = h.Write([]byte(path))
			_, _ = h.Write(content)
			return nil
		})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
