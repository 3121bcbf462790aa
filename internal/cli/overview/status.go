package overview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

type statusView struct {
	Now  time.Time `json:"now"`
	Late struct {
		Runs        int64      `json:"runs"`
		More        bool       `json:"more"`
		OldestDueAt *time.Time `json:"oldest_due_at"`
	} `json:"late"`
	Lateness struct {
		P50 *float64 `json:"p50_ms"`
		P99 *float64 `json:"p99_ms"`
	} `json:"lateness_5m"`
	DueNext  int64 `json:"due_next_5m"`
	DueExact bool  `json:"due_next_5m_exact"`

	EndedIncomplete bool `json:"ended_1h_incomplete"`

	Running  int64 `json:"running"`
	Accepted int64 `json:"accepted"`
	Retrying int64 `json:"retrying"`
	Ended    struct {
		Succeeded int64 `json:"succeeded"`
		Failed    int64 `json:"failed"`
		Cancelled int64 `json:"cancelled"`
		Skipped   int64 `json:"skipped"`
		Missed    int64 `json:"missed"`
	} `json:"ended_1h"`
	DeadLetters struct {
		Count int64 `json:"count"`
		More  bool  `json:"more"`
	} `json:"dead_letters"`
	Paused struct {
		Jobs   int64 `json:"jobs"`
		Queues int64 `json:"queues"`
		More   bool  `json:"more"`
	} `json:"paused"`
	Audit struct {
		Until   *time.Time `json:"until"`
		Missing int64      `json:"missing"`
		Checked int64      `json:"checked"`
	} `json:"audit"`
	Minutes   []minuteView `json:"minutes"`
	Attention []struct {
		Text string `json:"text"`
	} `json:"attention"`
	Failing []struct {
		Job     string `json:"job"`
		JobName string `json:"job_name"`
		Failed  int64  `json:"failed_1h"`
		Message string `json:"message"`
	} `json:"failing"`
}

type minuteView struct {
	Counted bool     `json:"counted"`
	Started int64    `json:"started"`
	Failed  int64    `json:"failed"`
	Skipped int64    `json:"skipped"`
	Missed  int64    `json:"missed"`
	Late    int64    `json:"late"`
	P99     *float64 `json:"p99_ms"`
}

// statusPause is the pause between two requests of --watch.
const statusPause = 2 * time.Second

// Status returns the command that shows whether everything is on time.
func Status() *cobra.Command {
	cmd := remote.Flags(&cobra.Command{
		Use: "status", Short: "Show whether everything is on time, and what needs someone", Args: usage.Args(0, 0),
		Long: `Show whether everything is on time: runs that are late now, what happened in the last
hour, and what needs someone. Late runs, dead letters, pauses and what needs someone
are read from the ledger. The numbers of the last hour and the charts are statistics.
A dot in a chart is a minute in which nothing happened, a space one that no node counted.`,
		Example: `  belfry status
  belfry status --watch
  belfry status -o json`,
	})
	watch := cmd.Flags().BoolP("watch", "w", false, "show it again every 2 seconds, until Ctrl-C")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		last := ""
		for {
			raw, err := r.Get(ctx, "/overview", nil)
			if err == nil && string(raw) != last {
				last = string(raw)
				if *watch {
					r.Refresh()
				}
				err = r.Show(raw, func() error { return printStatus(r, raw) })
			}
			switch {
			case *watch && err == nil:
				remote.Pause(ctx, statusPause)
			case *watch && errors.Is(err, context.Canceled): // Ctrl-C is how --watch ends
				return nil
			}
			if !*watch || err != nil || ctx.Err() != nil {
				return err
			}
		}
	})
	return cmd
}

func printStatus(r *remote.Server, raw []byte) error {
	s, err := terminal.Decode[statusView](raw)
	if err != nil {
		return err
	}
	p := terminal.NewPrinter(r.Out)
	p.Line("%s  %s", s.verdict(), terminal.Faint.Render(terminal.Local(s.Now.UTC())))
	p.Line("")
	s.printNumbers(p)
	s.printCharts(p)
	if len(s.Attention) > 0 {
		p.Line("")
		p.Line("%s", terminal.Strong.Render("Needs attention"))
		for _, a := range s.Attention {
			p.Line("  %s %s", terminal.Yellow.Render("!"), a.Text)
		}
	}
	if len(s.Failing) > 0 {
		p.Line("")
		p.Line("%s", terminal.Strong.Render("Failing most in the last hour"))
		for _, f := range s.Failing {
			name := f.JobName
			if name == "" {
				name = f.Job + " (deleted)"
			}
			p.Line("  %s × %s  %s", terminal.Red.Render(terminal.Number(f.Failed)), name,
				terminal.Faint.Render(terminal.Truncate(f.Message, 60)))
		}
	}
	p.Line("")
	p.Line("%s", s.audit())
	return p.Err()
}

// verdict answers the question.
func (s *statusView) verdict() string {
	started := ""
	if s.Lateness.P99 != nil {
		started = fmt.Sprintf(", runs started %s late, 99%% within %s (5 min)",
			milliseconds(s.Lateness.P50), milliseconds(s.Lateness.P99))
	}
	switch {
	case s.Late.Runs == 0 && s.Late.More:
		return terminal.Yellow.Render("? UNKNOWN") + "  too many live runs to read all of them" + started
	case s.Late.Runs == 0:
		return terminal.Green.Render("● ON TIME") + "  0 late" + started
	}
	oldest := ""
	if at := s.Late.OldestDueAt; at != nil {
		oldest = fmt.Sprintf(", the oldest for %s", s.Now.Sub(*at).Round(time.Second))
	}
	runs := " runs have not started"
	if s.Late.Runs == 1 && !s.Late.More {
		runs = " run has not started"
	}
	return terminal.Red.Render("▲ LATE") + "  " + terminal.AtLeast(s.Late.Runs, s.Late.More) + runs + oldest
}

func milliseconds(ms *float64) string {
	if ms == nil {
		return "-"
	}
	d := time.Duration(*ms * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// printNumbers prints a table of three columns.
func (s *statusView) printNumbers(p *terminal.Printer) {
	next := terminal.Number(s.DueNext)
	if !s.DueExact {
		next = "about " + next
	}
	ended := func(n int64) string { return terminal.AtLeast(n, s.EndedIncomplete) }
	cells := [][2]string{
		{"due next 5 min", next},
		{"succeeded 1 h", ended(s.Ended.Succeeded)},
		{"dead letters", terminal.AtLeast(s.DeadLetters.Count, s.DeadLetters.More)},
		{"running", terminal.Number(s.Running)},
		{"failed 1 h", ended(s.Ended.Failed)},
		{"paused jobs", terminal.AtLeast(s.Paused.Jobs, s.Paused.More)},
		{"accepted", terminal.Number(s.Accepted)},
		{"skipped 1 h", ended(s.Ended.Skipped)},
		{"paused queues", terminal.Number(s.Paused.Queues)},
		{"retrying", terminal.Number(s.Retrying)},
		{"missed 1 h", ended(s.Ended.Missed)},
		{"cancelled 1 h", ended(s.Ended.Cancelled)},
	}
	for i := 0; i < len(cells); i += 3 {
		var line strings.Builder
		for _, c := range cells[i : i+3] {
			line.WriteString("  " + terminal.Faint.Render(fmt.Sprintf("%-14s", c[0])) + fmt.Sprintf(" %8s", c[1]))
		}
		p.Line("%s", line.String())
	}
}

// printCharts prints a line for each series that is not empty.
func (s *statusView) printCharts(p *terminal.Printer) {
	chart := func(name string, always bool, of func(m *minuteView) int64, unit string) {
		values, most := make([]int64, len(s.Minutes)), int64(0)
		for i := range s.Minutes {
			values[i] = of(&s.Minutes[i])
			most = max(most, values[i])
		}
		if most == 0 && !always {
			return
		}
		bars := []rune(terminal.Sparkline(values))
		for i := range s.Minutes {
			if !s.Minutes[i].Counted && values[i] == 0 {
				bars[i] = ' '
			}
		}
		p.Line("  %s %s", terminal.Faint.Render(fmt.Sprintf("%-8s", name))+string(bars),
			terminal.Faint.Render("max "+terminal.Number(most)+unit))
	}
	p.Line("")
	p.Line("%s", terminal.Strong.Render("Last 60 minutes"))
	chart("started", true, func(m *minuteView) int64 { return m.Started }, "")
	chart("failed", false, func(m *minuteView) int64 { return m.Failed }, "")
	chart("skipped", false, func(m *minuteView) int64 { return m.Skipped }, "")
	chart("missed", false, func(m *minuteView) int64 { return m.Missed }, "")
	chart("late", false, func(m *minuteView) int64 { return m.Late }, "")
	chart("p99", false, func(m *minuteView) int64 {
		if m.P99 == nil {
			return 0
		}
		return int64(max(*m.P99, 1))
	}, " ms")
}

func (s *statusView) audit() string {
	switch {
	case s.Audit.Missing > 0:
		return terminal.Red.Render(fmt.Sprintf("audit: %s occurrences are not in the ledger as they must be",
			terminal.Number(s.Audit.Missing)))
	case s.Audit.Until == nil:
		return terminal.Faint.Render("audit: no sample in the last hour")
	}
	return terminal.Faint.Render(fmt.Sprintf("audit: %s occurrences checked in the last hour, until %s: all are in the ledger",
		terminal.Number(s.Audit.Checked), s.Audit.Until.UTC().Format("15:04 UTC")))
}
