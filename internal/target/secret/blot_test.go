package secret_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// Nothing of a secret is left, whole or where the text ends within it; and what
// only looks like a short piece of one stays, unless the text was cut there.
func TestBlot(t *testing.T) {
	t.Parallel()
	forms := secret.Forms([]string{"canary-one", "my-canary-one", "say \"it\"", "short"})
	for said, want := range map[string]string{
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
		require.Equal(t, want, secret.Blot(said, forms), said)
	}
}
