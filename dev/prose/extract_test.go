package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStringsKeepTheirLines(t *testing.T) {
	t.Parallel()
	lines, err := goStrings([]byte(`package x

var a = errors.New("first part, " +
	"second part")
var b, c = "other text", "one"
`))
	require.NoError(t, err)
	require.Equal(t, []string{"", "", "first part, ", "second part" + separator, "other text" + separator, ""}, lines)
}

func TestCommentsKeepTheirLines(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"Plan: one row.", "", "why", ""},
		comments([]byte("-- Plan: one row.\nSELECT 1\nFROM t -- why\n"), sqlComment))
	require.Equal(t, []string{"", "build it"}, comments([]byte("#!/bin/sh\nbuild: ## build it"), shellComment))
}

func TestWhatIsExtracted(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"internal/x/x.go", "internal/x/query/x.sql", "dev/services", "Makefile"} {
		require.NotNil(t, extractor(path), path)
	}
	for _, path := range []string{"internal/x/x_test.go", "sdk/go/models.gen.go", "docs/x.md", "internal/testdata/x.sql", "LICENSE"} {
		require.Nil(t, extractor(path), path)
	}
}
