package http

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// maxSnippet is how much of what a receiver said is kept, in bytes.
const maxSnippet = 512

// harmless headers say how to read, not who asks.
var harmless = []string{"Accept", "Accept-Language", "Cache-Control", "Content-Language", "Content-Type", "User-Agent"}

// secretsOf a config are the values of its headers and of its URL's query, also
// without the scheme that Authorization begins with, and also as quoted texts.
// Longest first, so that no part of one is left when a shorter one is found in it.
func secretsOf(c *config) []string {
	var all []string
	add := func(s string) { all = append(all, s) }
	for name, value := range c.headers {
		if slices.Contains(harmless, name) {
			continue
		}
		add(value)
		if _, rest, found := strings.Cut(value, " "); found {
			add(rest)
		}
	}
	for _, values := range c.url.Query() {
		for _, v := range values {
			add(v)
		}
	}
	add(c.url.RawQuery)
	return secret.Forms(all)
}

// show makes what a receiver said fit for a message: secrets blotted out before
// anything is cut off, then cleaned.
func (c *delivery) show(said []byte) string {
	secrets := c.secrets
	if len(c.hide) > 0 {
		secrets = secret.Forms(append(slices.Clone(secrets), c.hide...))
	}
	return clean(secret.Blot(string(said), secrets), maxSnippet)
}

// clean makes a text printable, valid UTF-8 and at most so many bytes long.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	const more = "…"
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
