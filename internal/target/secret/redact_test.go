package secret_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// TestRedact: whole secrets are replaced, and nothing else.
func TestRedact(t *testing.T) {
	t.Parallel()
	forms := secret.Forms([]string{"canary-one", "my-canary-one", "say \"it\"", "short"})
	for text, want := range map[string]string{
		"short, and none of the others":   "short, and none of the others",
		"canary-one and my-canary-one":    "[hidden] and [hidden]",
		`{"x": "say \"it\""} or say "it"`: `{"x": "[hidden]"} or [hidden]`,
		"it ends in canary-o":             "it ends in canary-o",
		"it ends in canary-o…":            "it ends in canary-o…",
		"":                                "",
	} {
		require.Equal(t, want, secret.Redact(text, forms), text)
	}
}

// TestRedactAnswer: the end of an answer that was cut off is removed, whatever it is.
func TestRedactAnswer(t *testing.T) {
	t.Parallel()
	forms := secret.Forms([]string{"canary-one", "my-canary-one"})
	for text, want := range map[string]string{
		"it has canary-one and ends":      "it has [hidden] and ends",
		"it ends in canary-o…":            "it ends in [hidden]…",
		"it ends in \"another-o...":       "it ends in [hidden]...",
		"try it again...":                 "try it again...", // too short to reveal anything
		"it ends in canary-o, and then …": "it ends in canary-o, and then …",
		"…":                               "…",
		"":                                "",
	} {
		require.Equal(t, want, secret.RedactAnswer(text, forms, false), text)
		require.Equal(t, text, secret.RedactAnswer(text, nil, true), "no secrets")
	}
	for text, want := range map[string]string{
		"it is a " + "my-canary-on":   "it is a ",
		"it is a " + "123456789012":   "it is a ",
		"it is canary-one, my-canary": "it is [hidden]", // what comes after a whole secret may be another one
		"canary-one":                  "[hidden]",
		"my-canary-on":                "",
		"":                            "",
	} {
		require.Equal(t, want, secret.RedactAnswer(text, forms, true), text)
	}
}

// TestRedactIsNoOracle: whoever writes a text cannot find out from the result whether it has the beginning of a secret.
func TestRedactIsNoOracle(t *testing.T) {
	t.Parallel()
	const value, other = "s3cr3t-v4lue-of-a-job", "another-value-of-none"
	forms := secret.Forms(append(secret.Base64([]string{value}), value))
	for n := range len(value) {
		for _, end := range []string{"", "…", "..."} {
			for name, redact := range map[string]func(text string) string{
				"whole":  func(text string) string { return secret.Redact(text, forms) },
				"answer": func(text string) string { return secret.RedactAnswer(text, forms, false) },
				"cut":    func(text string) string { return secret.RedactAnswer(text, forms, true) },
			} {
				right, wrong := redact("it is "+value[:n]+end), redact("it is "+other[:n]+end)
				require.Equal(t, strings.ReplaceAll(wrong, other[:n], value[:n]), right, "%s: %d %s", name, n, end)
			}
		}
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
