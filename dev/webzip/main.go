// Command webzip packs the built UI into one file, or checks that the file holds what was built.
//
//	go run ./dev/webzip pack web/dist web/dist.zip
//	go run ./dev/webzip check web/dist web/dist.zip
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "webzip:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: webzip pack|check DIRECTORY FILE")
	}
	built, err := readDirectory(args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "pack":
		return pack(built, args[2])
	case "check":
		return check(built, args[2])
	default:
		return fmt.Errorf("no such command: %s", args[0])
	}
}

func readDirectory(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[name], err = os.ReadFile(filepath.Join(dir, name))
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New(dir + " is empty")
	}
	return files, err
}

// pack writes the files in order, without times: the same files give the same archive.
func pack(built map[string][]byte, file string) error {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, name := range slices.Sorted(maps.Keys(built)) {
		method := zip.Deflate
		if filepath.Ext(name) == ".woff2" { // it is compressed already
			method = zip.Store
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			return err
		}
		if _, err := w.Write(built[name]); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// check compares file by file, because another version of Go may compress differently.
func check(built map[string][]byte, file string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	var problems []error
	seen := map[string]bool{}
	for _, f := range z.File {
		seen[f.Name] = true
		r, err := f.Open()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		want, ok := built[f.Name]
		switch {
		case !ok:
			problems = append(problems, fmt.Errorf("%s: only in %s", f.Name, file))
		case !bytes.Equal(content, want):
			problems = append(problems, fmt.Errorf("%s: differs from what was built", f.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(built)) {
		if !seen[name] {
			problems = append(problems, fmt.Errorf("%s: not in %s", name, file))
		}
	}
	if len(problems) > 0 {
		problems = append(problems, errors.New("run make web and commit "+file))
	}
	return errors.Join(problems...)
}
