// Package message prepares the text of outcomes. Receivers, brokers and commands write parts of it, and
// it is stored with each attempt and shown to users, so it must be printable and short.
//
// Secrets must be removed first, with secret.Redact: a secret that was cut off cannot be found any more.
package message

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis marks where a text was cut off.
const ellipsis = "…"

// Clean returns text as valid UTF-8, with spaces in place of unprintable characters, and at most limit
// bytes long.
func Clean(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimSpace(text)
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
