package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Finding is something wrong with an archived day.
type Finding struct {
	Object  string `json:"object"`
	Problem string `json:"problem"`
}

// Verification is what Verify read.
type Verification struct {
	Manifest Manifest
	Bytes    int64
	Findings []Finding // none: the day is whole
}

// maxFindings bounds what is reported about one day.
const maxFindings = 1000

// Verify reads all objects of a day back and compares them with its manifest: their bytes, their rows and where they
// are. It also finds objects that the manifest does not name. An error means that the day could not be verified. One
// object at a time is in memory.
func (a *Archive) Verify(ctx context.Context, manifest string) (v Verification, err error) {
	if v.Manifest, err = a.Manifest(ctx, manifest); err != nil {
		return v, err
	}
	for i := range v.Manifest.Files {
		f := &v.Manifest.Files[i]
		problem, err := a.verifyFile(ctx, v.Manifest.Day, f)
		if err != nil {
			return v, err
		}
		v.add(f.Name, problem)
		v.Bytes += f.Bytes
	}
	for name, err := range a.unknown(ctx, &v.Manifest) {
		if err != nil {
			return v, err
		}
		v.add(name, "no manifest names this object")
	}
	return v, nil
}

func (v *Verification) add(object, problem string) {
	if problem != "" && len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, Finding{object, problem})
	}
}

// unknown lists the objects of a day that its manifest does not name.
func (a *Archive) unknown(ctx context.Context, m *Manifest) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for _, kind := range []Kind{Runs, Skips} {
			for name, err := range a.names(ctx, m.Day.prefix(kind), "") {
				known := err == nil && slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name })
				if !known && !yield(name, err) {
					return
				}
			}
		}
	}
}

// Orphans lists the objects of a day that were left by tries that were interrupted and by earlier generations: those of
// the manifest's generation and before that the manifest does not name. Later ones belong to a node that is exporting the
// day again, and are not listed. Neither are objects whose names the archive does not write.
func (a *Archive) Orphans(ctx context.Context, m *Manifest) ([]string, error) {
	var out []string
	for name, err := range a.unknown(ctx, m) {
		if err != nil {
			return nil, err
		}
		if g, ok := generationOf(name); ok && g <= m.Generation {
			out = append(out, name)
		}
	}
	return out, nil
}

// verifyFile returns what is wrong with a file, or an error if that cannot be found out.
func (a *Archive) verifyFile(ctx context.Context, d Day, f *File) (problem string, err error) {
	size, err := a.store.Size(ctx, f.Name)
	if errors.Is(err, ErrNotFound) {
		return "the object is missing", nil
	}
	if err != nil {
		return "", err
	}
	if size != f.Bytes {
		return fmt.Sprintf("the object has %d bytes, expected %d", size, f.Bytes), nil
	}
	content, err := read(ctx, a.store, f.Name, size)
	if errors.Is(err, ErrNotFound) {
		return "the object is missing", nil
	}
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != f.SHA256 {
		return fmt.Sprintf("its SHA-256 is %x, expected %s", sum, f.SHA256), nil
	}
	return contentProblem(content, d, f), nil
}

// contentProblem compares the rows of a file with its description: the description may be wrong from the start.
func contentProblem(content []byte, d Day, f *File) string {
	verify := verifyRows[Run, *Run]
	if f.Kind == Skips {
		verify = verifyRows[Skip, *Skip]
	}
	if err := verify(content, d, f); err != nil {
		return err.Error()
	}
	return ""
}

func verifyRows[T any, R Row[T]](content []byte, d Day, f *File) error {
	file, err := openParquet(bytes.NewReader(content), f)
	if err != nil {
		return err
	}
	for key, want := range map[string]string{
		"belfry.day": d.String(), "belfry.kind": string(f.Kind), "belfry.namespace": f.Namespace.String(),
	} {
		if got, _ := file.Lookup(key); got != want {
			return fmt.Errorf("its %s is %q, expected %q", key, got, want)
		}
	}
	var c check[T, R]
	for _, group := range file.RowGroups() {
		for r, err := range rows[T](group, 0) {
			if err == nil {
				err = c.add(r)
			}
			if err != nil {
				return err
			}
		}
	}
	return c.compare(f)
}

// check is what the rows of a file say about it.
type check[T any, R Row[T]] struct {
	sum        Sum
	first, end string
	from, to   int64
	last       T
	scratch    []byte
}

func (c *check[T, R]) add(r R) error {
	key := r.Key()
	first, last := r.dueTimes()
	switch {
	case c.sum.Rows == 0:
		c.first, c.from, c.to = key, first, last
	case r.Compare(&c.last) < 0:
		return fmt.Errorf("row %s is not in its order", key)
	}
	c.from, c.to = min(c.from, first), max(c.to, last)
	c.scratch = r.Append(c.scratch[:0])
	c.sum.add(key, c.scratch)
	c.last, c.end = *r, key
	return nil
}

func (c *check[T, R]) compare(f *File) error {
	if c.sum != f.Sum || c.first != f.First || c.end != f.Last {
		return fmt.Errorf("it has %d rows from %s to %s, expected %d rows from %s to %s", c.sum.Rows, c.first, c.end,
			f.Sum.Rows, f.First, f.Last)
	}
	if from, to := fromMicros(&c.from), fromMicros(&c.to); !from.Equal(f.DueFrom) || !to.Equal(f.DueTo) {
		return fmt.Errorf("its due times are from %s to %s, expected from %s to %s", from, to, f.DueFrom, f.DueTo)
	}
	return nil
}
