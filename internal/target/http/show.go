package http

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxSnippet is how much of what a receiver said is kept, in bytes.
	maxSnippet = 512
	// minSecret: shorter values are no secrets worth the name, and blotting them
	// out would make texts unreadable.
	minSecret = 6
	blot      = "[hidden]"
)

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
	return hidden(all)
}

// hidden is texts, those that are long enough, also as quoted texts, the longest
// first.
func hidden(texts []string) (all []string) {
	for _, s := range texts {
		if len(s) < minSecret {
			continue
		}
		all = append(all, s)
		if quoted := strconv.Quote(s); len(quoted) != len(s)+2 {
			all = append(all, quoted[1:len(quoted)-1])
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return slices.Compact(all)
}

// show makes what a receiver said fit for a message: secrets blotted out before
// anything is cut off, then cleaned.
func (c *delivery) show(said []byte) string {
	text := string(said)
	secrets := c.secrets
	if len(c.hide) > 0 {
		secrets = hidden(append(slices.Clone(secrets), c.hide...))
	}
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, blot)
	}
	// What was read may end within a secret.
	for _, secret := range secrets {
		for n := min(len(secret)-1, len(text)); n >= minSecret; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				text = text[:len(text)-n] + blot
				break
			}
		}
	}
	return clean(text, maxSnippet)
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
