package main

import (
	"context"
	"encoding/json"
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
				var answer struct {
					Items []story `json:"items"`
				}
				if err := json.Unmarshal(raw, &answer); err != nil {
					return err
				}
				p := printer{w: r.out}
				for i, s := range answer.Items {
					if i > 0 {
						p.line("")
					}
					p.line("%s %s  %s", strong.Render(s.Local), faint.Render("("+s.At.UTC().Format("2006-01-02 15:04:05 UTC")+")"), stateStyle(s.Code))
					p.line("%s", s.Text)
					if s.Run != nil {
						p.line("%s", faint.Render("belfry run get "+s.Run.ID))
					}
				}
				return p.err
			})
		}),
	})
}
