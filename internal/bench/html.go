package bench

import (
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

//go:embed report.html
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// The area of the curves in the picture of the template, which is 760 by 250.
const (
	plotLeft, plotTop     = 64.0, 12.0
	plotWidth, plotHeight = 680.0, 196.0
)

// bucketWidth is the time between two points of the starts over time.
const bucketWidth = 100 * time.Millisecond

// report is what the template shows.
type report struct {
	*Result
	Cards  []card
	Charts []chart
}

// card is one of the main figures.
type card struct{ Name, Value, Note string }

// chart has curves and axes, in the coordinates of the picture.
type chart struct {
	Title, Note    string
	XTitle, YTitle string
	X, Y           []tick
	Curves         []curve
}

type tick struct {
	At   float64
	Text string
}

type curve struct {
	Name  string
	Class string // of the style
	Path  string
}

// HTML writes a self-contained report.
func (r *Result) HTML(w io.Writer) error {
	c := report{Result: r, Cards: r.cards()}
	if len(r.starts) > 0 {
		c.Charts = []chart{r.percentiles(), r.startsOverTime(), r.latenessOverTime()}
	}
	if err := reportTemplate.Execute(w, c); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r *Result) cards() []card {
	cards := []card{
		{
			"runs per second", number(r.RunsPerSecond),
			fmt.Sprintf("%s runs, drained in %.2f s", number(float64(r.Runs)), r.DrainSeconds),
		},
		{"lateness p99", ms(r.Lateness.P99), "p50 " + ms(r.Lateness.P50) + ", first " + ms(r.Lateness.First)},
		{"lost", number(float64(r.Lost)), number(float64(r.Duplicates)) + " duplicates"},
	}
	if r.RatioToBare != nil {
		cards = append(cards, card{
			"of bare SQL", fmt.Sprintf("%.2f", *r.RatioToBare),
			number(*r.BareRunsPerSecond) + " runs/s without an engine",
		})
	}
	return cards
}

// nines are the percentiles with a tick: each is exceeded ten times more rarely.
var nines = []float64{0, .9, .99, .999, .9999}

// percentiles is the lateness by percentile. The axis is logarithmic, so that rare values are visible.
func (r *Result) percentiles() chart {
	late := sortedLateness(r.starts)
	rarity := func(q float64) float64 { return -math.Log10(1 - q) }
	rarest := max(1, math.Min(math.Log10(float64(len(late))), rarity(nines[len(nines)-1])))
	c := chart{Title: "Lateness by percentile", XTitle: "percentile", YTitle: "ms"}
	c.Note = "maximum lateness of a start, by percentile"
	for _, q := range append(nines, .5, .75) {
		if rarity(q) <= rarest {
			c.X = append(c.X, tick{across(rarity(q), rarest), fmt.Sprintf("%g", math.Round(q*1e6)/1e4)})
		}
	}
	var p points
	const steps = 200
	highest := late[len(late)-1]
	scale := c.scaleY(highest)
	for i := range steps + 1 {
		x := rarest * float64(i) / steps
		p.add(across(x, rarest), up(percentile(late, 1-math.Pow(10, -x)), scale))
	}
	c.Curves = []curve{{"", "late", p.line()}}
	return c
}

// startsOverTime counts starts in each bucket.
func (r *Result) startsOverTime() chart {
	counts := make([]float64, len(r.buckets(bucketWidth)))
	highest := 0.0
	for i, b := range r.buckets(bucketWidth) {
		counts[i] = float64(len(b))
		highest = max(highest, counts[i])
	}
	c := r.overTime(len(counts), bucketWidth)
	c.Title, c.YTitle = "Starts per 100 ms", "starts"
	scale := c.scaleY(highest)
	var p points
	p.add(plotLeft, plotTop+plotHeight)
	for i, n := range counts {
		p.add(across(float64(i), float64(len(counts))), up(n, scale))
		p.add(across(float64(i+1), float64(len(counts))), up(n, scale))
	}
	p.add(plotLeft+plotWidth, plotTop+plotHeight)
	c.Curves = []curve{{"", "area", p.line()}}
	return c
}

// latenessOverTime is p50 and p99 of the starts of each moment.
func (r *Result) latenessOverTime() chart {
	const maxPoints = 120
	width := max(bucketWidth, (r.length()/maxPoints + bucketWidth - 1).Truncate(bucketWidth))
	buckets := r.buckets(width)
	c := r.overTime(len(buckets), width)
	c.Title, c.YTitle = "Lateness over time", "ms"
	var middle, high points
	highest := 0.0
	for _, b := range buckets {
		if len(b) > 0 {
			highest = max(highest, percentile(sortedLateness(b), .99))
		}
	}
	scale := c.scaleY(highest)
	for i, b := range buckets {
		if len(b) == 0 {
			continue
		}
		late, x := sortedLateness(b), across(float64(i)+.5, float64(len(buckets)))
		middle.add(x, up(percentile(late, .5), scale))
		high.add(x, up(percentile(late, .99), scale))
	}
	c.Curves = []curve{{"p99", "high", high.line()}, {"p50", "late", middle.line()}}
	return c
}

// length is the time from the first to the last start.
func (r *Result) length() (d time.Duration) {
	for _, s := range r.starts {
		d = max(d, s.at.Sub(r.origin))
	}
	return d
}

// buckets groups the starts by time.
func (r *Result) buckets(width time.Duration) [][]start {
	out := make([][]start, r.length()/width+1)
	for _, s := range r.starts {
		i := max(0, s.at.Sub(r.origin)/width)
		out[i] = append(out[i], s)
	}
	return out
}

// overTime is a chart with a time axis.
func (r *Result) overTime(n int, width time.Duration) chart {
	length := (time.Duration(n) * width).Seconds()
	c := chart{XTitle: map[string]string{
		"hot-second": "seconds after they were due", "steady": "seconds",
		"engine": "seconds after the first start, last round",
	}[r.Bench]}
	for _, t := range round(length, 8) {
		if t <= length {
			c.X = append(c.X, tick{across(t, length), fmt.Sprintf("%g", t)})
		}
	}
	return c
}

// scaleY adds a vertical axis that reaches a value, and returns the end of the axis.
func (c *chart) scaleY(highest float64) float64 {
	ticks := round(max(highest, 1e-3), 4)
	scale := ticks[len(ticks)-1]
	for _, t := range ticks {
		c.Y = append(c.Y, tick{up(t, scale), fmt.Sprintf("%g", t)})
	}
	return scale
}

// round lists about n round numbers from 0 to at least a value.
func round(to float64, n int) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10(to/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if to/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	for i := 0; ; i++ {
		t := math.Round(float64(i)*step*1e6) / 1e6
		out = append(out, t)
		if t >= to {
			return out
		}
	}
}

func across(v, scale float64) float64 { return plotLeft + plotWidth*v/scale }
func up(v, scale float64) float64     { return plotTop + plotHeight*(1-v/scale) }

// points builds the path of a curve.
type points struct{ b strings.Builder }

func (p *points) add(x, y float64) { fmt.Fprintf(&p.b, " %.1f,%.1f", x, y) }
func (p *points) line() string     { return strings.TrimSpace(p.b.String()) }
