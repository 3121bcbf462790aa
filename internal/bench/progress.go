package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/belfry-dev/belfry/internal/clock"
)

// linePause is how often a line is written if the output is not a terminal.
const linePause = 3 * time.Second

// nameWidth aligns the bars of steps.
const nameWidth = 28

// step shows the progress of a longer part of the work: a bar on a terminal, otherwise a line from time to time.
type step struct {
	name  string
	total int64
	out   io.Writer
	bars  *mpb.Progress // nil if the output is not a terminal
	bar   *mpb.Bar
	next  time.Duration
}

func newStep(out io.Writer, name string, total int) *step {
	s := &step{name: name, total: int64(total), out: out, next: clock.Elapsed() + linePause}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(file.Fd()) {
		_, _ = fmt.Fprintf(out, "%s\n", name) // progress is not essential
		return s
	}
	s.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(60))
	s.bar = s.bars.AddBar(s.total,
		mpb.PrependDecorators(decor.Name(name, decor.WC{W: nameWidth, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	return s
}

// set sets how much is done.
func (s *step) set(n int) {
	if s.bar != nil {
		s.bar.SetCurrent(min(int64(n), s.total-1)) // end completes it
		return
	}
	if now := clock.Elapsed(); now >= s.next {
		s.next = now + linePause
		_, _ = fmt.Fprintf(s.out, "%s: %d of %d\n", s.name, min(int64(n), s.total), s.total)
	}
}

// end ends the step. A bar that is not full stays as it is.
func (s *step) end() {
	if s.bar == nil {
		return
	}
	if s.bar.Current() >= s.total-1 {
		s.bar.SetTotal(-1, true)
	} else {
		s.bar.Abort(false)
	}
	s.bars.Wait()
}
