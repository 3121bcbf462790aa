package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
)

// story is what happened to one occurrence.
type story struct {
	At     time.Time `json:"at"`
	Local  string    `json:"local"`
	Code   string    `json:"code"`
	Reason string    `json:"reason"`
	Text   string    `json:"text"`
	Next   string    `json:"next"`
	Run    *runView  `json:"run"`

	Nearest []time.Time `json:"nearest"`
}

func newWhy() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "why JOB [TIME]", Short: "Tell what became of an occurrence, and why", Args: usage.Args(1, 2),
		Long: `Tell what became of an occurrence of a job: it ran, failed, was skipped, was never
due, or is yet to come; and why. Without a TIME, of the last and the next one. A
TIME without an offset is read on the clock of the job's zone.`,
		Example: `  belfry why report
  belfry why report 2026-03-29T02:30
  belfry why report 2026-03-29T00:30:00Z -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			query := url.Values{}
			if len(args) == 2 {
				query.Set("at", args[1])
			}
			raw, err := r.Get(ctx, remote.JobPath(args[0])+"/why", query)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				answer, err := terminal.Decode[struct {
					Items []story `json:"items"`
				}](raw)
				if err != nil {
					return err
				}
				return printStories(r.Out, terminal.Clean(args[0]), answer.Items)
			})
		}),
	})
}

// printStories prints stories, each with the commands to try next.
func printStories(w io.Writer, job string, stories []story) error {
	p := terminal.NewPrinter(w)
	wrap := func(text string) string { return text }
	if width := terminal.Width(w); width > 0 {
		wrap = func(text string) string { return lipgloss.Wrap(text, min(width, 100), " ") }
	}
	for i, s := range stories {
		if i > 0 {
			p.Line("")
		}
		utc := ""
		if at := s.At.UTC().Format("2006-01-02 15:04:05 UTC"); at != s.Local {
			utc = terminal.Faint.Render(" (" + at + ")")
		}
		code := terminal.State(s.Code)
		if s.Reason != "" && s.Reason != s.Code {
			code += ": " + s.Reason
		}
		p.Line("%s%s  %s", terminal.Strong.Render(s.Local), utc, code)
		p.Line("%s", wrap(s.Text))
		if s.Next != "" {
			p.Line("%s", wrap(s.Next))
		}
		for _, c := range s.commands(shellQuote(job)) {
			p.Line("%s", terminal.Faint.Render("  belfry "+c))
		}
	}
	return p.Err()
}

// commands returns the commands that a reader of the story may want to run next.
func (s *story) commands(job string) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	run, queue := "", ""
	if s.Run != nil {
		run, queue = s.Run.ID, s.Run.Queue
	}
	switch s.Code {
	case "failed":
		add("run get %s", run)
		if s.Run != nil && s.Run.Dead {
			add("dlq redrive %s", run)
			add("dlq discard %s", run)
		}
		if s.Reason == "gone" {
			add("job resume %s", job)
		}
	case "cancelled":
		add("run retry %s", run)
	case "skipped":
		if at := s.At.UTC(); s.Next != "" && at.Before(clock.Now()) {
			add("job backfill %s --from %s --to %s",
				job, at.Format(time.RFC3339Nano), at.Add(time.Second).Format(time.RFC3339Nano))
		}
	case "behind":
		add("job runs %s --state running", job)
	case "queue_paused":
		add("queue resume %s", queue)
	case "paused":
		add("job resume %s", job)
	case "running", "waiting", "retrying", "succeeded":
		add("run get %s", run)
	case "no_occurrence":
		for _, at := range s.Nearest {
			add("why %s %s", job, at.UTC().Format(time.RFC3339Nano))
		}
	case "before_start", "after_end", "finished":
		add("job get %s", job)
	}
	return out
}

// plainWord matches text that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@-]+$`)

// shellQuote quotes text as one word for a shell.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
