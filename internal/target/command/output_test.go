package command

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/target/command/runner"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	for wrote, want := range map[string]string{
		"a\nb":                                       "a\nb\n",
		"a\r\nb\r\n":                                 "a\nb\n",
		"10 %\r20 %\r30 %\n":                         "30 %\n",
		"\x1b[1;31mred\x1b[0m\x1b]0;t\x07!":          "red!\n",
		"\x00\x07\xff\u202e\u009b31m":                "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD31m\n",
		"tab\tä€😀":                                   "tab\tä€😀\n",
		"key=top-secret-1 key2=\"multi li\"":         "key=[hidden] key2=\"multi li\"\n",
		"\x1b[31mtop-\x1b[0msecret\x1b[1m-1\x1b[0m!": "[hidden]!\n",
		"": "",
	} {
		o := newOutput([]string{"top-secret-1", "li"})
		for _, b := range []byte(wrote) { // byte by byte
			o.add([]byte{b}, 0)
		}
		o.end()
		got, total := o.read()
		require.Equal(t, want, got, wrote)
		require.Equal(t, int64(len(want)), total)
	}
}

func TestOutputThatWasCut(t *testing.T) {
	t.Parallel()
	o := newOutput([]string{"top-secret-1"})
	o.add([]byte("first\nsec"), 0)
	o.add([]byte("ret-1 of a line\nsecond\n"), 100)
	o.end()
	got, _ := o.read()
	require.Equal(t, "first\nsec\n[… 100 bytes left out …]\nsecond\n", got)
}

// TestLongLinesAreNotCutWithinASecret: the two parts of a short secret would be too short to be recognized.
func TestLongLinesAreNotCutWithinASecret(t *testing.T) {
	t.Parallel()
	for before := maxLine - 11; before <= maxLine+1; before++ {
		o := newOutput([]string{"0123456789", "9876543210"})
		o.add([]byte(strings.Repeat("y", before)+"0123456789"+strings.Repeat("y", maxLine)), 0)
		o.end()
		got, _ := o.read()
		require.Equal(t, strings.Repeat("y", before)+"[hidden]"+strings.Repeat("y", maxLine),
			strings.ReplaceAll(got, "\n", ""))
	}
	long := newOutput([]string{strings.Repeat("x", 3*maxLine)})
	long.add([]byte(strings.Repeat("x", 3*maxLine)+"\nend"), 0)
	long.end()
	got, _ := long.read()
	require.NotContains(t, got, "xx")
	require.Contains(t, got, "end")
}

// TestDetailsDoNotShowSecrets: why a command did not start may quote what it wrote.
func TestDetailsDoNotShowSecrets(t *testing.T) {
	t.Parallel()
	got := new(config).outcome(t.Context(), time.Minute,
		runner.Result{End: runner.NotStarted, Detail: "it did not start: key top-\x1b[0msecret-1\nof top-secret-1"},
		newOutput([]string{"top-secret-1"}))
	require.Equal(t, "not run: it did not start: key [hidden] of [hidden]", got.Message)
}

// TestNoSecretInAnyPieces: a secret is never shown, whatever surrounds it and however it is split. Nor are
// terminal control sequences, and the output stays bounded.
func TestNoSecretInAnyPieces(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-v4lue"
	rapid.Check(t, func(t *rapid.T) {
		o := newOutput([]string{secret})
		var all strings.Builder
		for range rapid.IntRange(1, 30).Draw(t, "parts") {
			part := rapid.OneOf(
				rapid.Just(secret), rapid.Just("\n"), rapid.Just("\x1b[2J"), rapid.StringN(0, 20, 40),
				rapid.Map(rapid.IntRange(0, 9000), func(n int) string { return strings.Repeat("y", n) }),
			).Draw(t, "part")
			all.WriteString(part)
		}
		for rest := all.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			o.add([]byte(rest[:n]), 0)
			rest = rest[n:]
		}
		o.end()
		got, _ := o.read()
		require.NotContains(t, strings.ReplaceAll(got, "\n", ""), secret)
		require.LessOrEqual(t, len(got), MaxOutput)
		require.True(t, utf8.ValidString(got))
		require.False(t,
			strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }))
	})
}
