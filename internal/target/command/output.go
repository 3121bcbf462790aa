package command

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/belfry-dev/belfry/internal/target/command/runner"
)

const (
	// MaxOutput is how much of what a command wrote is kept, in bytes.
	MaxOutput = runner.MaxTail
	// maxLine is how long a line may get before it is shown in pieces.
	maxLine = 4 << 10
	// minSecret: shorter values are no secrets worth the name, and blotting them
	// out would make texts unreadable.
	minSecret = 6
	blot      = "[hidden]"
)

// output is the end of what a command wrote, fit to be shown. It grows by whole
// lines, so that no secret is missed because it came in two parts.
type output struct {
	secrets []string

	mu      sync.Mutex
	pending []byte // the line that has not ended
	text    []byte
	total   int64 // bytes of text since the beginning, with those cut off
}

func newOutput(secrets []string) *output { return &output{secrets: forms(secrets)} }

// forms of secrets are their lines, since output comes in lines, also as quoted
// texts, the longest first, so that no part of one is left when a shorter one is
// found in it.
func forms(secrets []string) []string {
	var all []string
	for _, value := range secrets {
		for line := range strings.Lines(value) {
			line = strings.TrimSpace(line)
			if len(line) < minSecret {
				continue
			}
			all = append(all, line)
			if quoted := strconv.Quote(line); len(quoted) != len(line)+2 {
				all = append(all, quoted[1:len(quoted)-1])
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// add takes in what came; skipped bytes came before it and are gone.
func (o *output) add(part []byte, skipped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if skipped > 0 {
		o.flush(true)
		o.append("[… " + strconv.FormatInt(skipped, 10) + " bytes left out …]\n")
		// What begins within a line may begin within a secret.
		if end := bytes.IndexByte(part, '\n'); end >= 0 {
			part = part[end+1:]
		}
	}
	o.pending = append(o.pending, part...)
	o.flush(false)
}

// end takes in the last line, if nothing ended it.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush(true)
}

func (o *output) flush(all bool) {
	for {
		end := bytes.IndexByte(o.pending, '\n')
		switch {
		case end >= 0:
			o.append(o.show(string(o.pending[:end])) + "\n")
			o.pending = o.pending[end+1:]
		case len(o.pending) > maxLine+maxLine/2 || all && len(o.pending) > 0:
			// What stays behind is long enough to hold the beginning of a secret.
			cut := len(o.pending)
			if !all {
				cut = maxLine
			}
			o.append(o.show(string(o.pending[:cut])) + "\n")
			o.pending = o.pending[cut:]
		default:
			o.pending = slices.Clone(o.pending) // let go of what is shown
			return
		}
	}
}

// append adds a line and cuts off whole lines from the beginning.
func (o *output) append(line string) {
	o.text = append(o.text, line...)
	o.total += int64(len(line))
	if over := len(o.text) - MaxOutput; over > 0 {
		if end := bytes.IndexByte(o.text[over:], '\n'); end >= 0 {
			over += end + 1
		}
		o.text = append(o.text[:0:0], o.text[over:]...)
	}
}

// read is the text, and how many bytes of it there were from the beginning.
func (o *output) read() (text string, total int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text), o.total
}

// sequences are what terminals obey: colours, titles, moves of the cursor.
var sequences = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])`)

// show makes a line fit to be shown. A carriage return begins it anew, as on a
// terminal.
func (o *output) show(line string) string {
	for _, secret := range o.secrets {
		line = strings.ReplaceAll(line, secret, blot)
	}
	line = hideEdges(line, o.secrets)
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	line = sequences.ReplaceAllString(line, "")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(line, "\uFFFD"))
}

// hideEdges blots out what a piece of a line may have of a secret at its ends.
func hideEdges(line string, secrets []string) string {
	for _, secret := range secrets {
		for n := min(len(secret)-1, len(line)); n >= minSecret; n-- {
			if strings.HasSuffix(line, secret[:n]) {
				line = line[:len(line)-n] + blot
				break
			}
		}
		for n := min(len(secret)-1, len(line)); n >= minSecret; n-- {
			if strings.HasPrefix(line, secret[len(secret)-n:]) {
				line = blot + line[n:]
				break
			}
		}
	}
	return line
}

// lastLines are the end of a text, as one line for a message.
func lastLines(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = text[len(text)-most:]
		if _, rest, found := strings.Cut(text, "\n"); found {
			text = rest
		}
	}
	return clean(strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\n", " | "), most)
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
