package job

import (
	"strings"
	"unicode/utf8"
)

// Storable makes a text that a worker or target sent fit for the database: valid UTF-8 without NUL, of at most most
// bytes. Such texts are for people, so an invalid one is no reason to reject a report.
func Storable(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
		s = s[:len(s)-1]
	}
	return s
}
