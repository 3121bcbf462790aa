package secret_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// Redact removes whole secrets, and pieces of a secret where the text ends within it. It keeps what only
// looks like a short piece of one, unless the text was cut there.
func TestRedact(t *testing.T) {
	t.Parallel()
	forms := secret.Forms([]string{"canary-one", "my-canary-one", "say \"it\"", "short"})
	for text, want := range map[string]string{
		"short, and none of the others":        "short, and none of the others",
		"canary-one and my-canary-one":         "[hidden] and [hidden]",
		`{"x": "say \"it\""} or say "it"`:      `{"x": "[hidden]"} or [hidden]`,
		"it ends in canary-o":                  "it ends in [hidden]",
		"it ends in my-canary-o":               "it ends in [hidden]", // and no my-
		"it ends in can":                       "it ends in can",
		"it ends in can…":                      "it ends in [hidden]…",
		"it ends in my-c…":                     "it ends in [hidden]…",
		"it ends in c...":                      "it ends in [hidden]...",
		"it ends in ca, and tells nothing of…": "it ends in ca, and tells nothing of…",
		"…":                                    "…",
		"":                                     "",
	} {
		require.Equal(t, want, secret.Redact(text, forms), text)
	}
}

// TestRedactBase64: a secret is found in base64, also if other text was encoded together with it.
func TestRedactBase64(t *testing.T) {
	t.Parallel()
	const value = "c\xff\xfe?>canary"
	forms := secret.Forms(secret.Base64([]string{value, "shorter"}))
	for _, e := range []*base64.Encoding{
		base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding,
	} {
		for before := range 6 {
			for after := range 6 {
				text := e.EncodeToString([]byte(strings.Repeat("b", before) + value + strings.Repeat("a", after)))
				got := secret.Redact("Basic "+text+".", forms)
				require.Contains(t, got, "[hidden]", text)
				hidden := 8*(before+len(value))/6 - (8*before+5)/6 // characters that depend on the value alone
				require.LessOrEqual(t, len(got), len("Basic .[hidden]")+len(text)-hidden, got)
			}
		}
	}
	require.Equal(t, "Basic [hidden]", secret.Redact("Basic "+base64.RawStdEncoding.EncodeToString([]byte(value)), forms))
	plain := base64.StdEncoding.EncodeToString([]byte("shorter"))
	require.Equal(t, plain, secret.Redact(plain, forms))
}
