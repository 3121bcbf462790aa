// Package storetest has the tests that every object store of the archive passes.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
)

// Run tests an empty store.
func Run(t *testing.T, s archive.Store) {
	for name, test := range map[string]func(*testing.T, archive.Store){
		"objects": objects, "one of many writers": oneWriter, "broken body": brokenBody, "lists": lists, "names": names,
		"probe": probe,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func put(t *testing.T, s archive.Store, name, content string) error {
	return s.Put(t.Context(), name, strings.NewReader(content), int64(len(content)))
}

func get(t *testing.T, s archive.Store, name string, offset, n int64) string {
	body, err := s.Get(t.Context(), name, offset, n)
	require.NoError(t, err)
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	return string(content)
}

func objects(t *testing.T, s archive.Store) {
	const name = "objects/day=2026-11-15/a.parquet"
	_, err := s.Size(t.Context(), name)
	require.ErrorIs(t, err, archive.ErrNotFound)
	if body, err := s.Get(t.Context(), name, 0, 10); err == nil { // some clients notice it when they read
		_, err = io.ReadAll(body)
		require.Error(t, err)
	} else {
		require.ErrorIs(t, err, archive.ErrNotFound)
	}
	require.NoError(t, s.Delete(t.Context(), name), "deleting nothing is no error")

	require.NoError(t, put(t, s, name, "0123456789"))
	require.ErrorIs(t, put(t, s, name, "other"), archive.ErrExists)
	size, err := s.Size(t.Context(), name)
	require.NoError(t, err)
	require.EqualValues(t, 10, size)
	require.Equal(t, "0123456789", get(t, s, name, 0, 10))
	require.Equal(t, "345", get(t, s, name, 3, 3))
	require.Equal(t, "89", get(t, s, name, 8, 10), "fewer bytes at the end")

	require.NoError(t, archive.PutOnce(t.Context(), s, name, []byte("0123456789")))
	require.ErrorIs(t, archive.PutOnce(t.Context(), s, name, []byte("0123456780")), archive.ErrDiffers)
	require.ErrorIs(t, archive.PutOnce(t.Context(), s, name, []byte("012345678")), archive.ErrDiffers)

	require.NoError(t, s.Delete(t.Context(), name))
	require.NoError(t, put(t, s, name, "other"), "the name is free again")
}

// oneWriter: of many writers at the same time one succeeds, and the object is its own.
func oneWriter(t *testing.T, s archive.Store) {
	const writers = 8
	var group sync.WaitGroup
	var winners atomic.Int32
	var winner atomic.Value
	for i := range writers {
		group.Go(func() {
			content := strings.Repeat(fmt.Sprint(i), 10_000)
			switch err := put(t, s, "one/writer", content); {
			case err == nil:
				winners.Add(1)
				winner.Store(content)
			case !errors.Is(err, archive.ErrExists):
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, winners.Load())
	require.Equal(t, winner.Load(), get(t, s, "one/writer", 0, 10_000))
}

// brokenBody: an object whose body fails or is shorter than it should be does not exist.
func brokenBody(t *testing.T, s archive.Store) {
	require.Error(t, s.Put(t.Context(), "broken/short", strings.NewReader("abc"), 10))
	require.Error(t, s.Put(t.Context(), "broken/failing", failing{bytes.NewReader(make([]byte, 10))}, 10))
	names, err := s.List(t.Context(), "broken/", "", 10)
	require.NoError(t, err)
	require.Empty(t, names)
}

type failing struct{ io.ReadSeeker }

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken on purpose") }

func lists(t *testing.T, s archive.Store) {
	// In the order of whole names, "a-b" is before "a/b", and "a/b" before "ab".
	all := []string{"list/a-b/1", "list/a/1", "list/a/2", "list/ab/1", "list/b"}
	for _, name := range all {
		require.NoError(t, put(t, s, name, name))
	}
	for i := range all {
		var got []string
		for after := ""; ; { // in pages of i + 1
			page, err := s.List(t.Context(), "list/", after, i+1)
			require.NoError(t, err)
			got = append(got, page...)
			if len(page) < i+1 {
				break
			}
			after = page[len(page)-1]
		}
		require.Equal(t, all, got, "pages of %d", i+1)
	}
	got, err := s.List(t.Context(), "list/a", "list/a/", 10)
	require.NoError(t, err)
	require.Equal(t, all[1:4], got, "a prefix need not end with a slash, and after need not exist")
	got, err = s.List(t.Context(), "nothing/", "", 10)
	require.NoError(t, err)
	require.Empty(t, got)
}

func names(t *testing.T, s archive.Store) {
	long := strings.Repeat("a", 513)
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a b", "a\x00", long} {
		require.Error(t, put(t, s, name, "x"), "%q", name)
		_, err := s.Size(t.Context(), name)
		require.Error(t, err, "%q", name)
		_, err = s.Get(t.Context(), name, 0, 1)
		require.Error(t, err, "%q", name)
		require.Error(t, s.Delete(t.Context(), name), "%q", name)
	}
}

func probe(t *testing.T, s archive.Store) {
	require.NoError(t, archive.Probe(t.Context(), s))
	require.NoError(t, archive.Probe(t.Context(), s), "it leaves nothing")
	require.ErrorIs(t, archive.Probe(t.Context(), overwriting{s}), archive.ErrOverwrites)
	// Another node probes the same store meanwhile.
	require.NoError(t, archive.Probe(t.Context(), &meanwhile{Store: s, put: func() {
		require.NoError(t, archive.Probe(t.Context(), s))
	}}))
	// The node stops before it has read the answer.
	ctx, stop := context.WithCancel(t.Context())
	require.ErrorIs(t, archive.Probe(ctx, &meanwhile{Store: s, put: stop}), context.Canceled)
	left, err := s.List(t.Context(), "v1/probe", "", 10)
	require.NoError(t, err)
	require.Empty(t, left, "a probe leaves nothing")
}

// meanwhile is a store that calls a function after the first write.
type meanwhile struct {
	archive.Store
	put func()
}

func (m *meanwhile) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := m.Store.Put(ctx, name, body, size)
	if m.put != nil {
		m.put()
		m.put = nil
	}
	return err
}

// overwriting is a server that ignores the condition of a write.
type overwriting struct{ archive.Store }

func (o overwriting) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := o.Delete(ctx, name); err != nil {
		return err
	}
	return o.Store.Put(ctx, name, body, size)
}
