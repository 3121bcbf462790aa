package secret_test

import (
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
