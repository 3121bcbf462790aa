package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// logsPause is the pause between two requests that the server answers without waiting: between attempts,
// and while many clients follow.
const logsPause = time.Second

func newRunLogs() *cobra.Command {
	var attempt int
	var follow bool
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Print what a run's command has written", Args: usage.Args(1, 1),
		Long: `Print the end of what the command of a run wrote to stdout and stderr, of its last
attempt unless --attempt names another. With -f it goes on until the run has
ended, through all attempts that are still to come.`,
		Example: `  belfry run logs run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run logs -f run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "number of the attempt; 0 is the last")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		if !follow {
			raw, err := r.Get(ctx, remote.RunPath(args[0])+"/output", url.Values{"attempt": {strconv.Itoa(attempt)}})
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				v, err := printOutput(r, raw, 0)
				if err == nil && v.Total == 0 {
					r.Note("%s", v.nothing())
				}
				return err
			})
		}
		return followLogs(ctx, r, remote.RunPath(args[0])+"/output", attempt)
	})
	return cmd
}

// outputView is the part of a response that is printed.
type outputView struct {
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
	From    int64  `json:"from"`
	Total   int64  `json:"total"`
	Live    bool   `json:"live"`
	State   string `json:"state"`
}

// ended reports whether the run has ended, so there will be no further output.
func (v *outputView) ended() bool { return slices.Contains(endStates, v.State) }

// nothing says why there is no output.
func (v *outputView) nothing() string {
	switch {
	case v.Attempt == 0:
		return "no output: the run has not started"
	case v.Live:
		return "no output yet; -f waits for it"
	}
	return fmt.Sprintf("no output: attempt %d wrote nothing, or the target is not a command", v.Attempt)
}

func printOutput(r *remote.Server, raw []byte, after int64) (v outputView, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, err
	}
	if v.From > after {
		r.Note("… %d bytes before this are gone", v.From-after)
	}
	_, err = io.WriteString(r.Out, terminal.CleanLines(v.Text))
	return v, err
}

// followLogs prints output until the run has ended: of one attempt, or with attempt 0 of the last one and
// those after it.
func followLogs(ctx context.Context, r *remote.Server, path string, attempt int) error {
	only := attempt != 0
	for after := int64(0); ; {
		raw, err := r.Get(ctx, path, url.Values{
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
		default: // this attempt has ended: is there another?
			last, err := lastAttempt(ctx, r, path)
			if err != nil {
				return err
			}
			if last.Attempt > attempt {
				attempt, after = attempt+1, 0
				r.Note("attempt %d", attempt)
				continue
			}
			if last.ended() {
				return nil
			}
		}
		if remote.Pause(ctx, logsPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// lastAttempt returns the output of the newest attempt.
func lastAttempt(ctx context.Context, r *remote.Server, path string) (v outputView, err error) {
	raw, err := r.Get(ctx, path, nil)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	return v, err
}
