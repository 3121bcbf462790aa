package terminal

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain Grüße 日本 👩‍🚀":     "plain Grüße 日本 👩‍🚀",
		"\x1b[31mred\x1b[0m":     `\x1b[31mred\x1b[0m`,
		"a\r\nb\tc\x00\x7f":      `a\r\nb\tc\x00\x7f`,
		"\u009b2J \u202egnp.exe": `\u009b2J \u202egnp.exe`,
		"\xff\u2028":             `\ufffd\u2028`,
	} {
		require.Equal(t, want, Clean(text))
	}
	require.Equal(t, "a\n  b\\r", CleanLines("a\n  b\r"))
	raw := json.RawMessage("{\"a\":\"\u009b2J\\u001b\"}")
	require.JSONEq(t, string(raw), string(escapeJSON(raw)))
	require.NotContains(t, string(escapeJSON(raw)), "\u009b")
}
