package overview

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

type summaryView struct {
	Groups  []groupView `json:"groups"`
	Total   int64       `json:"total"`
	More    bool        `json:"more"`
	Partial bool        `json:"partial"`
}

type groupView struct {
	Key       string     `json:"key"`
	Count     int64      `json:"count"`
	More      bool       `json:"more"`
	Cause     string     `json:"cause"`
	Reason    string     `json:"reason"`
	Message   string     `json:"message"`
	Job       string     `json:"job"`
	JobName   string     `json:"job_name"`
	Queue     string     `json:"queue"`
	OldestAt  *time.Time `json:"oldest_at"`
	NewestAt  *time.Time `json:"newest_at"`
	Sparkline []int64    `json:"sparkline"`
	Since     *struct {
		Succeeded int64 `json:"succeeded"`
		Failed    int64 `json:"failed"`
		More      bool  `json:"more"`
	} `json:"since"`
}

// DeadLetters returns the command that groups dead letters. filter adds the flags that select them, and returns what
// they select.
func DeadLetters(filter func(*cobra.Command) func() url.Values) *cobra.Command {
	cmd := &cobra.Command{
		Use: "summary", Short: "Group dead letters by what they have in common", Args: usage.Args(0, 0),
		Long: `Group dead letters: which failures are one and the same? Failures have the same
cause if their reason, status and message are alike, whatever numbers, ids, times
and quoted values the message has. --cause of list, redrive and discard takes it.
"since" is how runs of the same jobs ended after the last failure.`,
		Example: `  belfry dlq summary
  belfry dlq summary --by job --queue imports
  belfry dlq redrive --cause attempts-502-9f8e7d6c5b4a --rate 10`,
	}
	by := usage.NewChoice(cmd.Flags(), "by", "%s (default cause)", "cause", "job", "reason", "queue")
	query := filter(cmd)
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		q := query()
		q.Set("by", by.String())
		raw, err := r.Get(ctx, "/dead-letters:summary", remote.DropEmpty(q))
		if err != nil {
			return err
		}
		var groups struct {
			Groups json.RawMessage `json:"groups"`
		}
		if err := json.Unmarshal(raw, &groups); err != nil {
			return err
		}
		return r.ShowNamed(raw, groups.Groups, "key", func() error {
			s, err := terminal.Decode[summaryView](raw)
			if err != nil {
				return err
			}
			return printSummary(r, cmp.Or(by.String(), "cause"), &s)
		})
	})
	return cmd
}

func printSummary(r *remote.Server, by string, s *summaryView) error {
	if len(s.Groups) == 0 {
		r.Note("no dead letters")
		return nil
	}
	p := terminal.NewPrinter(r.Out)
	p.Line("%s dead letters, %s by %s", terminal.AtLeast(s.Total, s.More), groups(len(s.Groups)), by)
	for i := range s.Groups {
		printGroup(p, by, &s.Groups[i])
	}
	if s.Partial {
		p.Line("")
		p.Line("%s", terminal.Yellow.Render("There are too many dead letters to group all: some groups are missing."))
	}
	return p.Err()
}

func groups(n int) string {
	if n == 1 {
		return "1 group"
	}
	return terminal.Number(int64(n)) + " groups"
}

func printGroup(p *terminal.Printer, by string, g *groupView) {
	name := map[string]string{
		"cause": g.Cause, "job": cmp.Or(g.JobName, g.Job), "reason": g.Reason, "queue": g.Queue,
	}[by]
	p.Line("")
	p.Line("%s × %s", terminal.Red.Render(terminal.AtLeast(g.Count, g.More)), terminal.Strong.Render(name))
	field := func(name, value string) {
		p.Line("  %s%s", terminal.Faint.Render(name+strings.Repeat(" ", 9-len(name))), value)
	}
	last := terminal.Truncate(cmp.Or(g.Message, "no message"), 100)
	if by != "cause" {
		last += terminal.Faint.Render("  " + g.Cause)
	}
	field("message", last)
	field("when", terminal.Sparkline(g.Sparkline)+"  "+terminal.Time(g.OldestAt, nil)+" to "+terminal.Time(g.NewestAt, nil)+" UTC")
	if by != "job" {
		field("last job", cmp.Or(g.JobName, g.Job)+terminal.Faint.Render(" in queue "+g.Queue))
	}
	if d := g.Since; d != nil {
		field("since", terminal.AtLeast(d.Succeeded, d.More)+" succeeded, "+terminal.AtLeast(d.Failed, d.More)+" failed")
	}
}

// ShowDryRun prints how many dead letters a redrive or discard would cover.
func ShowDryRun(r *remote.Server, verb string, raw []byte) error {
	count, err := terminal.Decode[struct {
		Count  int64           `json:"count"`
		More   bool            `json:"more"`
		Sample json.RawMessage `json:"sample"`
	}](raw)
	if err != nil {
		return err
	}
	return r.ShowNamed(raw, count.Sample, "run", func() error {
		r.Line("%s would cover %s dead letters; nothing was changed", verb, terminal.AtLeast(count.Count, count.More))
		return nil
	})
}
