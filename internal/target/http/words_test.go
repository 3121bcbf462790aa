package http

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWords: what a path consists of is a secret unless it looks like words.
func TestWords(t *testing.T) {
	t.Parallel()
	for segment, want := range map[string]bool{
		"billing": true, "invoices-2026": true, "daily_report.v": true, "Größe": true, "2026-11-17": true, "": true,
		"T0AB12CD3": false, "B012345678": false, "abcdefghijklmnopqrstuvwx": false, "112233445566778899": false,
		"123456:AAE": false, "0b6a3c1e-9d1f-4a7b-8c2d-5e6f7a8b9c0d": false, "hook-a1b2c3": false,
	} {
		require.Equal(t, want, words(segment), segment)
	}
}
