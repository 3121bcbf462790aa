package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOneLine: the text of a target cannot break the line that it is shown in, nor turn its direction around.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"no such file\nretry\u2028later\x7f": "no such file retry later",
		"user \u202egnp.exe\u2066\u200f":     "user  gnp.exe",
		"\x1b[31mred\u009b":                  "[31mred",
		"größer als ☂":                       "größer als ☂",
		"\xff":                               "\uFFFD",
	} {
		require.Equal(t, want, oneLine(text))
	}
}
