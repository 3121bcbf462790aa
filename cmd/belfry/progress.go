package main

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

// sayEvery is how often progress is told where there is no terminal.
const sayEvery = 5 * time.Second

// progress is a bar on a terminal, and elsewhere a line now and then. Safe for
// concurrent use.
type progress struct {
	mu   sync.Mutex
	w    io.Writer
	name string
	bars *mpb.Progress
	bar  *mpb.Bar
	said time.Duration // when the last line was
}

func newProgress(w io.Writer, name string, total int64) *progress {
	p := &progress{w: w, name: name, said: clock.Elapsed()}
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(file.Fd()) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(64))
	p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d of %d")),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	return p
}

// set says how much is done, of how much.
func (p *progress) set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.bar != nil:
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(min(done, max(total-1, 0))) // end completes it
	case p.bars == nil && clock.Elapsed()-p.said >= sayEvery:
		p.said = clock.Elapsed()
		_, _ = fmt.Fprintf(p.w, "%s: %d of %d\n", p.name, done, total) // a courtesy
	}
}

// end takes the bar away. It may be called again.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
		p.bar = nil
	}
}
