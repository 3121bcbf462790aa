package secret

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

const (
	// minLength of a value that is redacted. Shorter values are too weak to be secrets, and redacting them
	// would make messages unreadable.
	minLength = 6
	// minEncoded is the length of a value that is also redacted in base64.
	minEncoded = 8
	// placeholder replaces a secret.
	placeholder = "[hidden]"
)

// Forms returns the spellings of values to redact: each value that is long enough, also as a quoted
// string. The longest come first, so that redacting a short one leaves no part of a longer one behind.
func Forms(values []string) (forms []string) {
	for _, s := range values {
		if len(s) < minLength {
			continue
		}
		forms = append(forms, s)
		if quoted := strconv.Quote(s); len(quoted) != len(s)+2 {
			forms = append(forms, quoted[1:len(quoted)-1])
		}
	}
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return slices.Compact(forms)
}

// Base64 returns the values that are long enough as they are in base64, in both alphabets: alone, or within a longer text
// such as user:password. There, the characters before and after a value that also depend on the rest of the text are not
// part of it. They have at most 4 bits of it on each side.
func Base64(values []string) (out []string) {
	for _, s := range values {
		if len(s) < minEncoded {
			continue
		}
		for before := range 3 { // bytes, modulo 3
			text := append(make([]byte, before), s...)
			from, to := (8*before+5)/6, 8*len(text)/6
			for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				encoded := alphabet.EncodeToString(text)
				out = append(out, encoded[from:], encoded[from:to])
			}
		}
	}
	return out
}

// Redact replaces secrets, given by their Forms, in text that someone else wrote. Call it before the text is cut off. It
// compares whole secrets only: whoever wrote the text may see the result, and must not learn how a secret begins.
func Redact(text string, forms []string) string {
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, placeholder)
	}
	return text
}

// RedactAnswer also removes the end of an answer that may end within a secret, whatever it is: of text that was cut, as
// much after the last whole secret as another one may have, and otherwise the last word before an ellipsis.
func RedactAnswer(text string, forms []string, cut bool) string {
	text = Redact(text, forms)
	if len(forms) == 0 {
		return text
	}
	if cut {
		whole := 0
		if i := strings.LastIndex(text, placeholder); i >= 0 {
			whole = i + len(placeholder)
		}
		return text[:max(whole, len(text)-len(forms[0])+1)]
	}
	for _, ellipsis := range []string{"…", "..."} {
		if before, found := strings.CutSuffix(text, ellipsis); found {
			if start := strings.LastIndexAny(before, " \t\r\n") + 1; len(before)-start >= minLength {
				return before[:start] + placeholder + ellipsis
			}
		}
	}
	return text
}

// RedactPiece replaces secrets in a piece of a longer text, which may begin and end within a secret.
func RedactPiece(text string, forms []string) string {
	text = Redact(text, forms)
	for _, form := range forms {
		for n := min(len(form)-1, len(text)); n >= minLength; n-- {
			if strings.HasSuffix(text, form[:n]) {
				text = text[:len(text)-n] + placeholder
				break
			}
		}
		for n := min(len(form)-1, len(text)); n >= minLength; n-- {
			if strings.HasPrefix(text, form[len(form)-n:]) {
				text = placeholder + text[n:]
				break
			}
		}
	}
	return text
}
