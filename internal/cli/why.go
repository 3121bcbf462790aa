package cli

import (
	"context"
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
)

// story is what happened to one occurrence.
type story struct {
	DueAt  time.Time `json:"due_at"`
	Local  string    `json:"local"`
	Code   string    `json:"code"`
	Reason string    `json:"reason"`
	Text   string    `json:"text"`
	Next   string    `json:"next"`
	Run    *runView  `json:"run"`

	Commands [][]string `json:"commands"`
}

func newWhy() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "why JOB|RUN [TIME]", Short: "Explain what happened to a run or an occurrence", Args: usage.Args(1, 2),
		Long: `Explain what happened to an occurrence of a job, and why: it ran, failed, was
skipped, was never due, or is yet to come.

With a JOB alone, it explains the newest run, whatever started it, the last and the
next occurrence, and open dead letters. With a TIME, it explains the occurrence at
that time; a TIME without an offset is in the job's zone.`,
		Example: `  belfry why report
  belfry why report@2026-03-29T00:30:00Z
  belfry why report 2026-03-29T02:30
  belfry why report 2026-03-29T00:30:00Z -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			path, query := remote.JobPath(args[0])+"/why", url.Values{}
			switch isRun := remote.IsRun(args[0]); {
			case isRun && len(args) == 2:
				return usage.Errorf("name a run, or a job and a time, not both")
			case isRun:
				id, err := r.RunID(ctx, args[0])
				if err != nil {
					return err
				}
				path = remote.RunPath(id) + "/why"
			case len(args) == 2:
				query.Set("at", args[1])
			}
			raw, err := r.Get(ctx, path, query)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				answer, err := terminal.Decode[struct {
					Job   string  `json:"job"`
					Items []story `json:"items"`
				}](raw)
				if err != nil {
					return err
				}
				name := terminal.Clean(args[0])
				if remote.IsRun(args[0]) {
					name = answer.Job
				}
				return printStories(r.Out, name, answer.Items)
			})
		}),
	})
}

// shownDead is how many dead letters the server explains; there may be more.
const shownDead = 3

// printStories prints stories, each with the commands to try next.
func printStories(w io.Writer, job string, stories []story) error {
	p := terminal.NewPrinter(w)
	wrap := func(text string) string { return text }
	if width := terminal.Width(w); width > 0 {
		wrap = func(text string) string { return lipgloss.Wrap(text, min(width, 100), " ") }
	}
	dead := 0
	for i, s := range stories {
		if s.Run != nil && s.Run.Dead {
			dead++
		}
		if i > 0 {
			p.Line("")
		}
		utc := ""
		if at := s.DueAt.UTC().Format("2006-01-02 15:04:05 UTC"); at != s.Local {
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
		for _, c := range s.Commands {
			p.Line("%s", terminal.Faint.Render("  belfry "+shellWords(c)))
		}
	}
	if dead >= shownDead {
		p.Line("")
		p.Line("There may be more dead letters:")
		p.Line("%s", terminal.Faint.Render("  belfry dlq list --job "+shellQuote(job)))
	}
	return p.Err()
}

// plainWord matches text that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@,-]+$`)

// shellWords writes the arguments of a command for a shell.
func shellWords(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = shellQuote(terminal.Clean(a))
	}
	return strings.Join(quoted, " ")
}

// shellQuote quotes text as one word for a shell.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
