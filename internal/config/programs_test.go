package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/config"
)

// TestProgramsOfNamespaces: a program may have the name of a namespace before it, other paths may not.
func TestProgramsOfNamespaces(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"programs: /bin/sh:billing=/opt/billing:/a=b": true,
		"programs: Billing=/opt":                      false,
		"programs: billing=opt":                       false,
		"programs: billing=/":                         false,
		"programs: =/opt":                             false,
		"paths: billing=/opt":                         false,
	} {
		file := filepath.Join(t.TempDir(), "belfry.yaml")
		require.NoError(t, os.WriteFile(file, []byte("command:\n  "+text+"\n"), 0o600))
		_, err := config.LoadFile(file)
		require.Equal(t, ok, err == nil, "%s: %v", text, err)
	}
}
