package main

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// logsPause is how long to wait where the server does not: for the next attempt,
// and when many follow.
const logsPause = time.Second

func newRunLogs() *cobra.Command {
	var attempt int
	var follow bool
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Print what a run's command has written", Args: wants(1, 1),
		Long: `Print the end of what the command of a run wrote to stdout and stderr, of its last
attempt unless --attempt names another. With -f it goes on until the run has
ended, through all attempts that are still to come.`,
		Example: `  belfry run logs run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run logs -f run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "number of the attempt; 0 is the last")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended")
	cmd.RunE = with(func(ctx context.Context, r *remote, args []string) error {
		if !follow {
			raw, err := r.get(ctx, runPath(args[0])+"/output", url.Values{"attempt": {strconv.Itoa(attempt)}})
			if err != nil {
				return err
			}
			return r.show(raw, func() error { _, err := printOutput(r, raw, 0); return err })
		}
		return r.followLogs(ctx, runPath(args[0])+"/output", attempt)
	})
	return cmd
}

// outputView is the part of an answer that is printed.
type outputView struct {
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
	From    int64  `json:"from"`
	Total   int64  `json:"total"`
	Live    bool   `json:"live"`
	State   string `json:"state"`
}

// ended says that nothing more comes of the run.
func (v *outputView) ended() bool {
	switch v.State {
	case "succeeded", "failed", "cancelled", "skipped":
		return true
	default:
		return false
	}
}

func printOutput(r *remote, raw []byte, after int64) (v outputView, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, err
	}
	if v.From > after {
		r.note("… %d bytes before this are gone", v.From-after)
	}
	_, err = io.WriteString(r.out, cleanLines(v.Text))
	return v, err
}

// followLogs prints what comes until the run has ended: of one attempt, or, with
// 0, of the last one and those after it.
func (r *remote) followLogs(ctx context.Context, path string, attempt int) error {
	timer := time.NewTimer(logsPause)
	defer timer.Stop()
	only := attempt != 0
	for after := int64(0); ; {
		raw, err := r.get(ctx, path, url.Values{
			"attempt": {strconv.Itoa(attempt)}, "after": {strconv.FormatInt(after, 10)}, "wait": {"20"},
		})
		if err != nil {
			return err
		}
		v, err := printOutput(r, raw, after)
		if err != nil {
			return err
		}
		after = v.Total
		switch {
		case v.Live || v.Text != "":
			attempt = v.Attempt
		case only:
			return nil
		default: // this attempt is over: is there another?
			last, err := r.lastAttempt(ctx, path)
			if err != nil {
				return err
			}
			if last.Attempt > attempt {
				attempt, after = attempt+1, 0
				r.note("attempt %d", attempt)
				continue
			}
			if last.ended() {
				return nil
			}
		}
		timer.Reset(logsPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lastAttempt is what the newest attempt has written.
func (r *remote) lastAttempt(ctx context.Context, path string) (v outputView, err error) {
	raw, err := r.get(ctx, path, nil)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	return v, err
}
