package command

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

const (
	// MaxOutput is how much of a command's output is kept, in bytes.
	MaxOutput = runner.MaxTail
	// maxLine is how long a line may get before it is shown in pieces.
	maxLine = 4 << 10
)

// output is the last part of a command's output, ready to be shown. It grows by whole lines, so that no
// secret is missed because it arrived in two parts.
type output struct {
	secrets []string // forms to redact

	mu      sync.Mutex
	pending []byte // the line that has not ended
	text    []byte
	total   int64 // bytes of text since the beginning, including those cut off
}

// newOutput redacts each line of the secrets, because output is shown line by line.
func newOutput(secrets []string) *output {
	var lines []string
	for _, value := range secrets {
		for line := range strings.Lines(value) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return &output{secrets: secret.Forms(lines)}
}

// add appends a part. skipped is the number of bytes before it that were dropped.
func (o *output) add(part []byte, skipped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if skipped > 0 {
		o.flush(true)
		o.append("[… " + strconv.FormatInt(skipped, 10) + " bytes left out …]\n")
		// The part may begin within a line, and so within a secret.
		if end := bytes.IndexByte(part, '\n'); end >= 0 {
			part = part[end+1:]
		}
	}
	o.pending = append(o.pending, part...)
	o.flush(false)
}

// end appends the last line if it has no line break.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush(true)
}

// flush appends the complete lines of pending, or everything.
func (o *output) flush(all bool) {
	for {
		end := bytes.IndexByte(o.pending, '\n')
		switch {
		case end >= 0:
			o.append(o.show(string(o.pending[:end])) + "\n")
			o.pending = o.pending[end+1:]
		case len(o.pending) > maxLine+maxLine/2 || all && len(o.pending) > 0:
			// The part that stays in pending is long enough for the beginning of a secret.
			cut := len(o.pending)
			if !all {
				cut = o.cut()
			}
			o.append(o.show(string(o.pending[:cut])) + "\n")
			o.pending = o.pending[cut:]
		default:
			o.pending = slices.Clone(o.pending) // frees the memory of what was appended
			return
		}
	}
}

// cut returns where to cut a line that is too long: before a secret, and not within it.
func (o *output) cut() int {
	cut := maxLine
	for _, form := range o.secrets {
		from, to := max(cut-len(form)+1, 0), min(cut+len(form)-1, len(o.pending))
		if i := bytes.Index(o.pending[from:to], []byte(form)); i >= 0 && from+i > 0 {
			cut = from + i
		}
	}
	return cut
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

// read returns the text, and how many bytes were appended since the beginning.
func (o *output) read() (text string, total int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text), o.total
}

// sequences matches terminal control sequences: colours, titles, cursor movement.
var sequences = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])`)

// show prepares a line to be shown. Text before a carriage return is dropped, as on a terminal.
func (o *output) show(line string) string {
	line = secret.RedactPiece(line, o.secrets)
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	// Without the sequences, the parts of a secret are next to each other.
	line = secret.RedactPiece(sequences.ReplaceAllString(line, ""), o.secrets)
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(line, "\uFFFD"))
}

// showAll prepares several lines to be shown.
func (o *output) showAll(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = o.show(line)
	}
	return strings.Join(lines, "\n")
}

// lastLines returns the end of a text as one line, at most limit bytes long.
func lastLines(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) > limit {
		text = text[len(text)-limit:]
		if _, rest, found := strings.Cut(text, "\n"); found {
			text = rest
		}
	}
	return message.Clean(strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\n", " | "), limit)
}
