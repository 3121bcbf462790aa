package job

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	causeBytes = 6   // of the hash of a message
	causeRead  = 512 // bytes of a message that count
	causeLimit = 200 // bytes of a message that count, after the replacements
	causeHex   = 8   // letters that an id without a digit has
	causeJoin  = 3   // characters between two values in a row
)

// Cause is a stable key of failures that look alike: the reason, the status and a hash of [CauseText]. It is stored and
// users filter by it, so the cause of a message never changes.
func Cause(reason Reason, status int, message string) string {
	cause := string(reason)
	if status != 0 {
		cause += "-" + strconv.Itoa(status)
	}
	if text := CauseText(message); text != "" {
		sum := sha256.Sum256([]byte(text))
		cause += fmt.Sprintf("-%x", sum[:causeBytes])
	}
	return cause
}

// CauseText is what the messages of failures that look alike have in common: # stands for each number, id, time and
// quoted value, and for several of them in a row. In JSON, the names of members stay, and so do strings whose name says
// that they describe the failure.
func CauseText(message string) string {
	tokens := replaceQuoted(split(Storable(message, causeRead)))
	replaceDays(tokens)
	var b strings.Builder
	for i := 0; i < len(tokens); i++ {
		if sign := tokens[i]; (sign == "-" || sign == "+") && is(tokens, i+1, "#") && (i == 0 || tokens[i-1] == " ") {
			continue
		}
		b.WriteString(tokens[i])
		for tokens[i] == "#" {
			next := i + 1
			for next < len(tokens) && next-i <= causeJoin && isAny(tokens[next], " ,.:;/+@-") {
				next++
			}
			if !is(tokens, next, "#") {
				break
			}
			i = next
		}
	}
	return strings.TrimSpace(Storable(strings.TrimSpace(b.String()), causeLimit))
}

func is(tokens []string, i int, text string) bool {
	return i >= 0 && i < len(tokens) && tokens[i] == text
}

// isAny reports whether a token is one of some characters.
func isAny(token, characters string) bool {
	return len(token) == 1 && strings.ContainsAny(token, characters)
}

// split returns the words of a text and the characters between them. White space counts as one space. Words with a
// digit and hexadecimal words are #.
func split(text string) (tokens []string) {
	for i := 0; i < len(text); {
		end, digit := i, false
		for at, r := range text[i:] {
			if r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) {
				break
			}
			end, digit = i+at+utf8.RuneLen(r), digit || unicode.IsNumber(r)
		}
		if end > i {
			word := text[i:end]
			if digit || len(word) >= causeHex && isHex(word) {
				word = "#"
			}
			tokens, i = append(tokens, word), end
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch space := unicode.IsSpace(r) || unicode.IsControl(r); {
		case !space:
			tokens = append(tokens, string(r))
		case !is(tokens, len(tokens)-1, " "):
			tokens = append(tokens, " ")
		}
		i += size
	}
	for i, word := range tokens { // parts of UUIDs and IPv6 addresses that have no digit
		uuid := len(word) == 4 && is(tokens, i-1, "-") && is(tokens, i+1, "-")
		address := len(word) <= 4 && (is(tokens, i-1, ":") && (is(tokens, i-2, "#") || is(tokens, i-2, ":")) ||
			is(tokens, i+1, ":") && (is(tokens, i+2, "#") || is(tokens, i+2, ":")))
		if (uuid || address) && isHex(word) {
			tokens[i] = "#"
		}
	}
	return tokens
}

func isHex(word string) bool { return strings.Trim(word, "abcdefABCDEF") == "" }

// replaceQuoted replaces quoted values, except strings of JSON that are the name of a member or describe the failure.
func replaceQuoted(tokens []string) (out []string) {
	describes := false // the last string was the name of a member that describes the failure
	last := 0          // where out has the text after the last string
	for i := 0; i < len(tokens); i++ {
		end := quoteEnd(tokens, i)
		if end < 0 {
			out = append(out, tokens[i])
			continue
		}
		before := strings.TrimSpace(strings.Join(out[last:], ""))
		member := tokens[i] == `"` && (is(tokens, end+1, ":") || is(tokens, end+1, " ") && is(tokens, end+2, ":")) &&
			(strings.HasSuffix(before, "{") || strings.HasSuffix(before, ","))
		if member || describes && before == ":" {
			out = append(out, tokens[i:end+1]...)
		} else {
			out = append(out, "#")
		}
		describes = member && describesFailure(strings.Join(tokens[i:end], ""))
		i, last = end, len(out)
	}
	return out
}

// quoteEnd returns where the quoted value that starts at i ends, -1 if none does. An apostrophe in a word is no quote.
func quoteEnd(tokens []string, i int) int {
	quote := tokens[i]
	if quote != `"` && quote != "`" && (quote != "'" || i > 0 && isWord(tokens[i-1])) {
		return -1
	}
	for end := i + 1; end < len(tokens); end++ {
		switch {
		case quote == `"` && tokens[end] == `\`:
			end++ // what it escapes
		case tokens[end] == quote && (quote != "'" || end+1 == len(tokens) || !isWord(tokens[end+1])):
			return end
		}
	}
	return -1
}

// isWord reports whether a token is a word or stands for one.
func isWord(token string) bool {
	r, _ := utf8.DecodeRuneInString(token)
	return r == '#' || r == '_' || unicode.IsLetter(r)
}

func describesFailure(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(
		[]string{"code", "descr", "detail", "err", "message", "msg", "reason", "title", "type"},
		func(part string) bool { return strings.Contains(name, part) },
	)
}

// The names of days and months, which start with three letters of their own.
const (
	dayNames   = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
	monthNames = "January February March April May June July August September October November December"
)

// isDay reports whether a word is the name of a day or month, or its first three letters.
func isDay(word string) bool {
	if len(word) < 3 || word[0] < 'A' || word[0] > 'Z' {
		return false
	}
	for _, name := range strings.Fields(dayNames + " " + monthNames) {
		if word == name || word == name[:3] {
			return true
		}
	}
	return false
}

// replaceDays replaces the names of days and months that have a value or another such name next to them.
func replaceDays(tokens []string) {
	for i := range tokens {
		if !isDay(tokens[i]) {
			continue
		}
		before, after := i-1, i+1
		for before >= 0 && isAny(tokens[before], " ,.-") {
			before--
		}
		for after < len(tokens) && isAny(tokens[after], " ,.-") {
			after++
		}
		if is(tokens, before, "#") || is(tokens, after, "#") || after < len(tokens) && isDay(tokens[after]) {
			tokens[i] = "#"
		}
	}
}
