package terminal

import (
	"strconv"
	"strings"
)

// Number formats a number with commas, such as 4,180.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// AtLeast formats a number that may be the limit of a count, such as 10,000+.
func AtLeast(n int64, more bool) string {
	if more {
		return Number(n) + "+"
	}
	return Number(n)
}

// Sparkline draws numbers as bars of one character each. A number that is not zero is never drawn as none.
func Sparkline(numbers []int64) string {
	const bars = "▁▂▃▄▅▆▇█"
	heights := []rune(bars)
	var most int64
	for _, n := range numbers {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range numbers {
		if n <= 0 || most == 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(heights[int(float64(n)/float64(most)*float64(len(heights)-1))])
	}
	return b.String()
}
