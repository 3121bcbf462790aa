package main

import (
	"io"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	bars *mpb.Progress
	bar  *mpb.Bar
}

func newProgress(w io.Writer, name string, total int64) *progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(file.Fd()) {
		return &progress{}
	}
	p := &progress{bars: mpb.New(mpb.WithOutput(w), mpb.WithWidth(64))}
	p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d of %d")),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	return p
}

// set says how much is done, of how much.
func (p *progress) set(done, total int64) {
	if p.bar != nil {
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(min(done, max(total-1, 0))) // end completes it
	}
}

// end takes the bar away. It may be called again.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
		p.bar = nil
	}
}
