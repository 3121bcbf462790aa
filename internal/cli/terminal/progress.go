package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/belfry-dev/belfry/internal/clock"
)

// lineEvery is how often Progress prints a line if the output is not a terminal.
const lineEvery = 5 * time.Second

// Progress shows a bar on a terminal, and prints a line every few seconds elsewhere. It is safe for
// concurrent use.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	name     string
	bars     *mpb.Progress
	bar      *mpb.Bar
	lastLine time.Duration // when the last line was printed
}

// NewProgress starts to show progress. Call End when the work is done.
func NewProgress(w io.Writer, name string, total int64) *Progress {
	p := &Progress{w: w, name: name, lastLine: clock.Elapsed()}
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(file.Fd()) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(64))
	p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d of %d")),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	return p
}

// Set reports how much is done, of how much.
func (p *Progress) Set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.bar != nil:
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(min(done, max(total-1, 0))) // End completes the bar
	case p.bars == nil && clock.Elapsed()-p.lastLine >= lineEvery:
		p.lastLine = clock.Elapsed()
		_, _ = fmt.Fprintf(p.w, "%s: %d of %d\n", p.name, done, total) // losing a progress line is harmless
	}
}

// End removes the bar. It may be called more than once.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
		p.bar = nil
	}
}
