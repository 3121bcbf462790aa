package job

import (
	"strings"
	"unicode/utf8"
)

// Storable makes a string that a worker sent fit for the database: valid UTF-8 without NUL, cut off after limit bytes.
// Such strings are for people, so an invalid one is no reason to reject a report.
func Storable(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
		s = s[:len(s)-1]
	}
	return s
}
