package message_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/message"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"  plain text\r\n":               "plain text",
		"a\x00b\tc\u200bd":               "a b c d",
		"not \xff UTF-8":                 "not \uFFFD UTF-8",
		strings.Repeat("x", 20):          strings.Repeat("x", 20),
		strings.Repeat("x", 21):          strings.Repeat("x", 17) + "…",
		strings.Repeat("x", 16) + "äöüß": strings.Repeat("x", 16) + "…", // never cuts within a character
	} {
		require.Equal(t, want, message.Clean(text, 20), "%q", text)
	}
}
