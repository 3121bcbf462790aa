package main

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

type story struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Code  string    `json:"code"`
	Text  string    `json:"text"`
	Run   *runView  `json:"run"`
}

func newWhy() *cobra.Command {
	return remoteFlags(&cobra.Command{
		Use: "why JOB [TIME]", Short: "Tell what became of an occurrence, and why", Args: wants(1, 2),
		Long: `Tell what became of an occurrence of a job: it ran, failed, was skipped, was never
due, or is yet to come; and why. Without a TIME, of the last and the next one. A
TIME without an offset is read on the clock of the job's zone.`,
		Example: `  belfry why report
  belfry why report 2026-03-29T02:30
  belfry why report 2026-03-29T00:30:00Z -o json`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			query := url.Values{}
			if len(args) == 2 {
				query.Set("at", args[1])
			}
			raw, err := r.get(ctx, jobPath(args[0])+"/why", query)
			if err != nil {
				return err
			}
			return r.show(raw, func() error {
				answer, err := view[struct {
					Items []story `json:"items"`
				}](raw)
				if err != nil {
					return err
				}
				return tell(r.out, answer.Items)
			})
		}),
	})
}

// tell prints stories, with a line to go on from.
func tell(w io.Writer, stories []story) error {
	p := printer{w: w}
	for i, s := range stories {
		if i > 0 {
			p.line("")
		}
		utc := ""
		if at := s.At.UTC().Format("2006-01-02 15:04:05 UTC"); at != s.Local {
			utc = faint.Render(" (" + at + ")")
		}
		p.line("%s%s  %s", strong.Render(s.Local), utc, stateStyle(s.Code))
		p.line("%s", s.Text)
		if s.Run != nil {
			p.line("%s", faint.Render("belfry run get "+s.Run.ID))
		}
	}
	return p.err
}
