package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A changed byte, a missing file and a file too many are found.
func TestCheckFindsEachDifference(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "dist.zip")
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("index.html", "<html></html>")
	write("app.js", "let a = 1")
	require.NoError(t, run([]string{"pack", dir, file}))
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, run([]string{"check", dir, file}))

	write("app.js", "let a = 2")
	require.ErrorContains(t, run([]string{"check", dir, file}), "app.js: differs from what was built")
	write("app.js", "let a = 1")
	write("more.js", "")
	require.ErrorContains(t, run([]string{"check", dir, file}), "more.js: not in")
	require.NoError(t, os.Remove(filepath.Join(dir, "more.js")))
	require.NoError(t, os.Remove(filepath.Join(dir, "app.js")))
	require.ErrorContains(t, run([]string{"check", dir, file}), "app.js: only in")

	write("app.js", "let a = 1")
	require.NoError(t, run([]string{"pack", dir, file}))
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, first, again, "the same files give the same archive")

	// A byte of the archive itself, in the content of a file.
	again[30+len("app.js")+4] ^= 1 // behind the header of the first file
	require.NoError(t, os.WriteFile(file, again, 0o600))
	require.Error(t, run([]string{"check", dir, file}))
}
