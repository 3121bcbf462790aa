package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Store is object storage. An object is written as a whole or not at all, and is never overwritten.
type Store interface {
	// Put writes an object of this size. It returns ErrExists if there is one with this name. After any other error the
	// object may exist.
	Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	// Get reads a part of an object: n bytes from an offset on, or fewer at its end. It returns ErrNotFound if there is no
	// object.
	Get(ctx context.Context, name string, offset, n int64) (io.ReadCloser, error)
	// Size returns the size of an object, or ErrNotFound.
	Size(ctx context.Context, name string) (int64, error)
	// List returns up to limit names with a prefix that come after a name, in their order.
	List(ctx context.Context, prefix, after string, limit int) ([]string, error)
	// Delete removes an object. It is no error if there is none.
	Delete(ctx context.Context, name string) error
}

// The errors that callers distinguish.
var (
	ErrExists   = errors.New("the object exists")
	ErrNotFound = errors.New("no such object")
	// ErrDiffers says that there is an object of this name with another content.
	ErrDiffers = errors.New("the object exists with another content")
	// ErrOverwrites says that a store ignores the condition of a write, so a day could be written twice.
	ErrOverwrites = errors.New("the object store overwrites objects: it does not support If-None-Match")
)

// CheckName accepts the names that every store can keep: relative paths of letters, digits and -_.=, without hidden or
// empty parts.
func CheckName(name string) error {
	if len(name) > 512 {
		return fmt.Errorf("the name of an object has %d bytes, the maximum is 512", len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.Trim(part, letters) != "" {
			return fmt.Errorf("%q is not a valid name of an object", name)
		}
	}
	return nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.="

// PutOnce writes an object, or finds that it exists with the same content: an earlier try wrote it. Otherwise it
// returns ErrDiffers.
func PutOnce(ctx context.Context, s Store, name string, content []byte) error {
	sum := sha256.Sum256(content)
	f := File{Name: name, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	return PutFile(ctx, s, f, bytes.NewReader(content))
}

// PutFile is PutOnce of a part.
func PutFile(ctx context.Context, s Store, f File, body io.ReadSeeker) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	err := s.Put(ctx, f.Name, body, f.Bytes)
	if !errors.Is(err, ErrExists) {
		return err
	}
	size, err := s.Size(ctx, f.Name)
	if err != nil {
		return err
	}
	if size != f.Bytes {
		return fmt.Errorf("%s: %w", f.Name, ErrDiffers)
	}
	there, err := s.Get(ctx, f.Name, 0, size)
	if err != nil {
		return err
	}
	defer there.Close() //nolint:errcheck // read only
	hash := sha256.New()
	if _, err := io.Copy(hash, there); err != nil {
		return fmt.Errorf("read %s: %w", f.Name, err)
	}
	if hex.EncodeToString(hash.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s: %w", f.Name, ErrDiffers)
	}
	return nil
}

// probeDelete limits the removal of a probe, which also happens when the context has ended.
const probeDelete = 3 * time.Second

// Probe checks that a store can be written, read and listed, and that it refuses to overwrite an object. Some servers
// accept the condition of a write and ignore it. Any number of nodes may probe a store at the same time.
func Probe(ctx context.Context, s Store) (err error) {
	name := "v1/probe-" + uuid.NewString()
	content := []byte("Belfry checks that this object is not overwritten.\n")
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeDelete)
		defer cancel()
		if failed := s.Delete(ctx, name); failed != nil && err == nil {
			err = fmt.Errorf("delete the probe: %w", failed)
		}
	}()
	if err := PutOnce(ctx, s, name, content); err != nil {
		return fmt.Errorf("write a probe: %w", err)
	}
	again := s.Put(ctx, name, bytes.NewReader(content), int64(len(content)))
	switch {
	case again == nil:
		return ErrOverwrites
	case !errors.Is(again, ErrExists):
		return fmt.Errorf("write a probe again: %w", again)
	}
	names, err := s.List(ctx, name, "", 1)
	if err != nil {
		return fmt.Errorf("list the probe: %w", err)
	}
	if len(names) != 1 || names[0] != name {
		return fmt.Errorf("list the probe: got %q", names)
	}
	got, err := read(ctx, s, name, int64(len(content)))
	if err != nil {
		return fmt.Errorf("read the probe: %w", err)
	}
	if !bytes.Equal(got, content) {
		return errors.New("read the probe: it has another content")
	}
	return nil
}

// read returns a whole object of a known size. It returns fewer bytes if the object is shorter.
func read(ctx context.Context, s Store, name string, size int64) ([]byte, error) {
	body, err := s.Get(ctx, name, 0, size)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // read only
	content := make([]byte, 0, size)
	into := bytes.NewBuffer(content)
	if _, err := io.Copy(into, io.LimitReader(body, size)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return into.Bytes(), nil
}

// object reads an object in blocks, because a Parquet file is read in many small pieces. It keeps the last blocks.
type object struct {
	ctx    context.Context // io.ReaderAt has none, and an object lives as long as the call that opened it
	store  Store
	name   string
	size   int64
	blocks map[int64][]byte
	order  []int64
}

const (
	blockSize = 256 << 10
	maxBlocks = 32
)

func open(ctx context.Context, s Store, f *File) *object {
	return &object{ctx: ctx, store: s, name: f.Name, size: f.Bytes, blocks: map[int64][]byte{}}
}

// ReadAt is that of io.ReaderAt.
func (o *object) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) && offset < o.size {
		start := offset / blockSize * blockSize
		b, err := o.block(start)
		if err != nil {
			return n, err
		}
		if offset-start >= int64(len(b)) {
			return n, fmt.Errorf("read %s: %w", o.name, io.ErrUnexpectedEOF) // shorter than its manifest says
		}
		copied := copy(p[n:], b[offset-start:])
		n, offset = n+copied, offset+int64(copied)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *object) block(start int64) ([]byte, error) {
	if b, ok := o.blocks[start]; ok {
		return b, nil
	}
	body, err := o.store.Get(o.ctx, o.name, start, min(blockSize, o.size-start))
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(body, blockSize))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.name, err)
	}
	if len(o.order) == maxBlocks {
		delete(o.blocks, o.order[0])
		o.order = o.order[1:]
	}
	o.blocks[start], o.order = b, append(o.order, start)
	return b, nil
}
