package oracle

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Transition is an instant at which a zone's clock is set forward or back.
type Transition struct {
	At time.Time
	// Before and After are the offsets from UTC in seconds, east positive.
	Before, After int
}

// Transitions finds the changes of offset within the years from … to, both
// included, by looking every hour and then bisecting the hour.
func Transitions(loc *time.Location, fromYear, toYear int) []Transition {
	at := time.Date(fromYear, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(toYear+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	var found []Transition
	for offset := offsetAt(loc, at); at < end; {
		next := min(at+3600, end)
		if offsetAt(loc, next) == offset {
			at = next
			continue
		}
		// same still has the old offset, changed does not.
		same, changed := at, next
		for changed-same > 1 {
			middle := same + (changed-same)/2
			if offsetAt(loc, middle) == offset {
				same = middle
			} else {
				changed = middle
			}
		}
		if changed >= end {
			break
		}
		after := offsetAt(loc, changed)
		found = append(found, Transition{At: time.Unix(changed, 0).UTC(), Before: offset, After: after})
		// Go on from the change, not from the next hour: there may be a second.
		at, offset = changed, after
	}
	return found
}

func offsetAt(loc *time.Location, at int64) int {
	_, offset := time.Unix(at, 0).In(loc).Zone()
	return offset
}

// zoneDirs are the directories where systems keep compiled zones, as package time knows them.
var zoneDirs = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// Zones returns every zone name of the tz database, sorted. Like package time, it uses the database that
// ZONEINFO names, else the system's, else the one that comes with Go.
func Zones() ([]string, error) {
	for _, place := range append([]string{os.Getenv("ZONEINFO")}, zoneDirs...) {
		names, err := zonesAt(place)
		if err == nil && len(names) > 0 {
			return names, nil
		}
	}
	database, err := GoDatabase()
	if err != nil {
		return nil, err
	}
	return zonesAt(database)
}

// GoDatabase returns the path of the zone database that comes with Go, which package time/tzdata embeds. It
// fails if Go is not installed.
func GoDatabase() (string, error) {
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the zone database of Go: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
	_, err = os.Stat(path)
	return path, err
}

// zonesAt reads a directory or a zip file.
func zonesAt(place string) ([]string, error) {
	info, err := os.Stat(place)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return zonesIn(os.DirFS(place))
	}
	archive, err := zip.OpenReader(place)
	if err != nil {
		return nil, err
	}
	defer archive.Close() //nolint:errcheck // only read
	return zonesIn(archive)
}

// zonesIn lists the files that are compiled zones.
func zonesIn(tree fs.FS) ([]string, error) {
	var names []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "posix" || name == "right":
			// The whole database once more, without and with leap seconds.
			return fs.SkipDir
		case entry.IsDir() || name == "localtime" || name == "posixrules":
			// The last two are this machine's choice, not names of zones.
			return nil
		}
		isZone, err := hasZoneMagic(tree, name)
		if isZone {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

func hasZoneMagic(tree fs.FS, name string) (bool, error) {
	file, err := tree.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close() //nolint:errcheck // only read
	magic := make([]byte, 4)
	if _, err := io.ReadFull(file, magic); err != nil {
		// Shorter than a header: some other file.
		return false, nil
	}
	return bytes.Equal(magic, []byte("TZif")), nil
}
