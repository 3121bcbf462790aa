package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// JSON writes a result as one object.
func (r *Result) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes a result for people.
func (r *Result) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "belfry bench %s: %s\n\n", r.Bench, r.What())
	for _, row := range r.Rows() {
		fmt.Fprintf(&b, "  %-10s  %s\n", row[0], row[1])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// What describes what was measured.
func (r *Result) What() string {
	nodes := "1 node"
	if r.Nodes > 1 {
		nodes = fmt.Sprintf("%d nodes", r.Nodes)
	}
	what := map[string]string{"hot-second": "due at one instant", "steady": "", "engine": "due already"}[r.Bench]
	if r.Rate != nil {
		what = fmt.Sprintf("of which %s are due each second, for %s s", number(*r.Rate), number(*r.DurationSeconds))
	}
	return fmt.Sprintf("%s jobs %s, target %s, %s", number(float64(r.Jobs)), what, r.Target, nodes)
}

// Rows are the figures and the setting, as text.
func (r *Result) Rows() [][2]string {
	l := r.Lateness
	rows := [][2]string{
		{
			"runs",
			fmt.Sprintf("%s, %s lost, %s duplicates", number(float64(r.Runs)), number(float64(r.Lost)),
				number(float64(r.Duplicates))),
		},
		{"rate", fmt.Sprintf("%s runs/s, drained in %.2f s", number(r.RunsPerSecond), r.DrainSeconds)},
	}
	if r.RatioToBare != nil {
		rows = append(rows, [2]string{
			"bare SQL",
			fmt.Sprintf("%s runs/s; the engine reaches %.2f of it", number(*r.BareRunsPerSecond), *r.RatioToBare),
		})
	}
	return append(rows,
		[2]string{
			"lateness",
			fmt.Sprintf("first %s, p50 %s, p95 %s, p99 %s, max %s", ms(l.First), ms(l.P50), ms(l.P95), ms(l.P99),
				ms(l.Max)),
		},
		[2]string{
			"CPU cores",
			fmt.Sprintf("PostgreSQL %s, nodes %s, sink %s", cores(r.CPU.Postgres), cores(r.CPU.Node),
				cores(r.CPU.Sink)),
		},
		[2]string{
			"per run",
			fmt.Sprintf("%s bytes of WAL, %.4f transactions", number(r.WALBytesPerRun), r.TransactionsPerRun),
		},
		[2]string{
			"on",
			fmt.Sprintf("PostgreSQL %s, fsync %s, synchronous_commit %s, %d cores", r.PostgresVersion, r.Fsync,
				r.SynchronousCommit, r.Cores),
		},
	)
}

func cores(c *float64) string {
	if c == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *c)
}

func ms(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f ms", v)
	}
	return number(v) + " ms"
}

// number formats a whole number with separators for thousands.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
